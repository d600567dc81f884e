# Run by the build: writes the text files of a page as C++ constants. OUT, FRAME, STYLE, SCRIPTS (joined, in this order).
# Each script is a literal of its own: clang++ warns of more than 65,536 characters.
cmake_minimum_required(VERSION 3.25)

function(literal result source)
  file(READ ${source} content)
  set(${result} "R\"page(${content})page\"" PARENT_SCOPE)
endfunction()

literal(frame ${FRAME})
literal(style ${STYLE})
set(text "// Made of the page's sources.\n#include \"trace/page/sources.hpp\"\n\nnamespace weir::trace {\n\n")
string(APPEND text "const std::string_view page_frame = ${frame};\n\nconst std::string_view page_style = ${style};\n\n")
string(APPEND text "static constexpr std::string_view scripts[] = {")
foreach(source IN LISTS SCRIPTS)
  literal(script ${source})
  string(APPEND text "\n${script},")
endforeach()
string(APPEND text "\n};\nconst std::span<const std::string_view> page_scripts = scripts;\n\n}  // namespace weir::trace\n")
file(WRITE ${OUT} "${text}")

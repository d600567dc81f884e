"""The scripts that check the sources find what is planted: each in a tree of its own."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TREE = {
    "include/weir/stream.hpp": "#include <vector>\n#include <weir/op.hpp>\n",
    "include/weir/op.hpp": "#pragma once\n",
    "src/backend.hpp": "#include <weir/op.hpp>\n",
    "src/core/checks.hpp": '#include "backend.hpp"\n',
    "src/core/streams/submit.cpp": '#include "core/checks.hpp"\n#include <fmt/core.h>\n',
    "src/backends/cpu/cpu_device.hpp": '#include "backend.hpp"\n',
    "src/backends/cuda/cuda_device.hpp": '#include "backend.hpp"\n',
    "src/backends/registry.cpp": '#include "backends/cpu/cpu_device.hpp"\n',
    "apps/weir/session.hpp": "#include <weir/stream.hpp>\n",
    "apps/weir/main.cpp": '#include "session.hpp"\n',
    "bench/support/measure.hpp": "#pragma once\n",
    "bench/cpu/hops.cpp": '#include "support/measure.hpp"\n',
    "examples/01_hello.cpp": "#include <weir/stream.hpp>\n",
    "tests/support/gate.hpp": "#include <weir/stream.hpp>\n",
    "tests/conformance/order_test.cpp": '#include "support/gate.hpp"\n',
    "tests/core/checks_test.cpp": '#include "core/checks.hpp"\n',
}


class Planted(unittest.TestCase):
    def check(self, script, planted):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**TREE, **planted}.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            run = subprocess.run([sys.executable, ROOT / "scripts" / script, folder], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


class Rules(Planted):
    documents = {
        "README.md": "Streams.\n",
        "docs/ordering.md": "Order.\n",
        "docs/rules.md": "| R1 | A launch returns at once. | documented | `Order.R1_returns` |\n",
        "include/weir/launch.hpp": "/// Returns at once (R1).\n",
        "tests/conformance/order_test.cpp": "TEST_P(Order, R1_returns) {}\n",
    }

    def refused(self, planted, sentence):
        status, output = self.check("check_claims", {**self.documents, **planted})
        self.assertEqual(status, 1, output)
        self.assertIn(sentence, output)
        self.assertEqual(output.count("\n"), 1, output)

    def test_rules_with_rows_and_tests_pass(self):
        status, output = self.check("check_claims", self.documents)
        self.assertEqual(status, 0, output)

    def test_what_a_public_header_or_a_document_names_has_a_row(self):
        self.refused({"include/weir/copy.hpp": "/// Waits (R31).\n"}, "include/weir/copy.hpp: docs/rules.md has no row for R31")
        self.refused({"docs/recipes.md": "See R110.\n"}, "docs/recipes.md: docs/rules.md has no row for R110")

    def test_figures_of_feature_documents_are_held_by_something(self):
        self.refused({"docs/timeline.md": "It takes 2 us.\n"}, "docs/timeline.md:1: '2 us' names no rule, test or row that holds it")
        self.refused({"docs/timeline.md": "It takes 2 us (test `Order.gone`).\n"}, "there is no test Order.gone")
        self.assertEqual(self.check("check_claims", {**self.documents, "docs/timeline.md": "It takes 2 us (test `Order.R1_returns`).\n"})[0], 0)

    def test_a_row_names_a_test_that_exists(self):
        row = self.documents["docs/rules.md"]
        self.refused({"docs/rules.md": row + "| R2 | In order. | documented | `Order.R2_gone` |\n"}, "there is no test Order.R2_gone")
        self.refused({"docs/rules.md": row + "| R2 | In order. | documented | |\n"}, "ends with the test that holds it")

    def test_figures_and_tests_of_the_documents_are_held(self):
        self.refused({"docs/ipc.md": "It takes 7 us.\n"}, "docs/ipc.md:1: '7 us' names no rule, test or row that holds it")
        self.refused({"docs/checking.md": "See test `Order.gone`.\n"}, "docs/checking.md:1: there is no test Order.gone")
        cited = {"docs/ipc.md": "It takes 7 us (test `Order.R1_returns`).\n", "docs/checking.md": "7 us here. See tests `Order`.\n"}
        self.assertEqual(self.check("check_claims", {**self.documents, **cited})[0], 0)

    def test_files_are_no_longer_than_pages_say(self):
        page = {"docs/notes.md": "`examples/01_hello.cpp` is a program in 2 lines.\n", "examples/01_hello.cpp": "int\nmain();\n"}
        self.assertEqual(self.check("check_claims", {**self.documents, **page})[0], 0)
        self.refused({**page, "examples/01_hello.cpp": "int\nmain\n();\n"}, "docs/notes.md:1: examples/01_hello.cpp has 3 lines, not 2 at most")
        self.refused({"docs/notes.md": "`examples/gone.cpp` is one in 2 lines.\n"}, "docs/notes.md:1: examples/gone.cpp has no lines")

    def test_a_figure_is_held_by_a_script_that_measures_it(self):
        page = "It takes 7 us, measured by `scripts/gpu --only trace`.\n"
        self.assertEqual(self.check("check_claims", {**self.documents, "docs/performance.md": page, "scripts/gpu": ""})[0], 0)
        self.refused({"docs/performance.md": page}, "docs/performance.md:1: there is no scripts/gpu")

    def test_a_sentence_that_ends_with_a_colon_holds_its_table(self):
        table = "\n| field | unit |\n|---|---|\n| hop | 7 us |\n"
        cited = {"docs/simulation.md": "Held by tests `Order`:\n" + table}
        self.assertEqual(self.check("check_claims", {**self.documents, **cited})[0], 0)
        self.refused({"docs/simulation.md": "Held by tests `Order`.\n" + table}, "docs/simulation.md:5: '7 us' names no rule")
        self.refused({"docs/simulation.md": "As follows:\n" + table}, "docs/simulation.md:5: '7 us' names no rule")

    def test_what_others_come_to_is_compiled(self):
        page = "| CUDA | Weir |\n|---|---|\n| `cudaStreamQuery(s)` | `stream.done()` |\n"
        test = {"tests/coming_from/coming_from_test.cpp": "bool b = stream.\n    done();\n", "docs/coming_from.md": page}
        self.assertEqual(self.check("check_claims", {**self.documents, **test})[0], 0)
        row = "| `cudaEventQuery(e)` | `event.done()` |\n"
        self.refused({**test, "docs/coming_from.md": page + row}, "tests/coming_from has no event.done()")

    def test_programs_of_pages_are_compiled(self):
        page = "Graphs:\n\n```cpp\n#include <weir/weir.hpp>\nweir::Graph g;  // empty\ng.launch(s);\n```\n"
        test = {"tests/pages/graphs_test.cpp": "weir::Graph g;           // empty\n  g.launch(s);\n", "docs/graphs.md": page}
        self.assertEqual(self.check("check_claims", {**self.documents, **test})[0], 0)
        self.refused({**test, "docs/graphs.md": page.replace("launch", "play")}, "docs/graphs.md:3: neither tests/pages nor tests/coming_from has this block")

    def test_sentences_about_mistakes_are_expected_by_a_program(self):
        page = "| You write | It says |\n|---|---|\n| `wait()` | wait for what |\n"
        own_words = "\n| You write | It says |\n|---|---|\n| `go()` | no matching function |\n"
        program = {"tests/must_not_compile/wait.cpp": "// expect: wait for what, then\n", "docs/mistakes.md": page + own_words}
        self.assertEqual(self.check("check_claims", {**self.documents, **program})[0], 0)
        row = "| `fly()` | who flies |\n"
        self.refused({**program, "docs/mistakes.md": page + row}, "no program of tests/must_not_compile expects 'who flies'")

    def test_a_rule_has_one_row(self):
        self.refused({"docs/rules.md": 2 * self.documents["docs/rules.md"]}, "R1 has a row already")


class Layers(Planted):
    def refused(self, name, text):
        status, output = self.check("check_layers", {name: text})
        self.assertEqual(status, 1, output)
        self.assertIn(name, output)
        self.assertEqual(output.count("\n"), 1, output)

    def test_the_tree_without_anything_planted_passes(self):
        status, output = self.check("check_layers", {})
        self.assertEqual(status, 0, output)

    def test_threads_do_not_yield_without_end(self):
        self.refused("src/core/runtime.cpp", "void f() { while (!done) std::this_thread::yield(); }\n")
        self.refused("src/core/runtime.cpp", "void f() { while (!done) sched_yield(); }\n")

    def test_the_core_knows_no_backend(self):
        self.refused("src/core/runtime.cpp", '#include "backends/cpu/cpu_device.hpp"\n')

    def test_the_core_compares_with_no_backends_name(self):
        self.refused("src/core/runtime.cpp", 'bool gpu() { return name() == "cuda"; }\n')

    def test_a_backend_knows_no_other_one_and_nothing_of_the_core(self):
        self.refused("src/backends/cpu/queue.cpp", '#include "backends/cuda/cuda_device.hpp"\n')
        self.refused("src/backends/cpu/queue.cpp", '#include "core/checks.hpp"\n')

    def test_the_model_of_simulated_devices_is_pure(self):
        for include in ("<thread>", "<chrono>", "<fstream>", "<unistd.h>", "<weir/sim.hpp>", '"thread_safety.hpp"', '"backends/sim/costs.hpp"'):
            self.refused("src/backends/sim/model/more.cpp", f"#include {include}\n")
        planted = {"src/backends/sim/model/more.cpp": '#include <vector>\n#include "backends/sim/model/less.hpp"\n', "src/backends/sim/model/less.hpp": ""}
        self.assertEqual(self.check("check_layers", planted)[0], 0)

    def test_a_new_folder_of_src_needs_a_place(self):
        self.refused("src/extras/more.cpp", "\n")

    def test_src_knows_no_tests_apps_benchmarks_or_examples(self):
        self.refused("src/core/runtime.cpp", '#include "support/gate.hpp"\n')
        self.refused("src/core/runtime.cpp", '#include "../../tests/support/gate.hpp"\n')
        self.refused("src/core/runtime.cpp", '#include "../../apps/weir/session.hpp"\n')
        self.refused("src/core/runtime.cpp", '#include "session.hpp"\n')
        self.refused("src/core/runtime.cpp", '#include "bench/support/measure.hpp"\n')
        self.refused("src/core/runtime.cpp", '#include "examples/01_hello.cpp"\n')

    def test_apps_know_neither_tests_nor_the_library_inside(self):
        self.refused("apps/weir/demo.cpp", '#include "support/gate.hpp"\n')
        self.refused("apps/weir/demo.cpp", '#include "../../tests/support/gate.hpp"\n')
        self.refused("apps/weir/demo.cpp", '#include "core/checks.hpp"\n')

    def test_only_tests_of_the_inside_look_inside(self):
        self.refused("tests/conformance/inside_test.cpp", '#include "core/checks.hpp"\n')
        self.refused("bench/cpu/inside.cpp", '#include "core/checks.hpp"\n')
        self.refused("examples/02_inside.cpp", '#include "../src/core/checks.hpp"\n')

    def test_public_headers_include_themselves_and_the_standard_library(self):
        self.refused("include/weir/text.hpp", "#include <fmt/core.h>\n")
        self.refused("include/weir/text.hpp", '#include "op.hpp"\n')
        self.refused("include/weir/text.hpp", "#include <backend.hpp>\n")
        self.refused("include/weir/text.hpp", "#include <unistd.h>\n")

    def test_comments_and_line_ends_hide_nothing(self):
        self.refused("src/core/runtime.cpp", '#include/**/"backends/cpu/cpu_device.hpp"\n')
        self.refused("src/core/runtime.cpp", '# /* a */ include /* b\n */ "backends/cpu/cpu_device.hpp"\n')
        self.refused("src/core/runtime.cpp", '#include \\\n"backends/cpu/cpu_device.hpp"\n')
        self.refused("src/core/runtime.cpp", '#define THAT "backends/cpu/cpu_device.hpp"\n#include THAT\n')

    def test_what_a_comment_includes_is_not_included(self):
        planted = {"src/core/runtime.cpp": '// #include "support/gate.hpp"\n/*\n#include "support/gate.hpp"\n*/\n'}
        self.assertEqual(self.check("check_layers", planted)[0], 0)

    def test_a_header_by_any_name_is_looked_at(self):
        for suffix in ("ipp", "inl", "h", "cuh", "cu"):
            self.refused(f"src/core/runtime.{suffix}", '#include "backends/cpu/cpu_device.hpp"\n')


class Locks(Planted):
    def refused(self, text):
        status, output = self.check("check_locks", {"src/core/runtime.hpp": text})
        self.assertEqual(status, 1, output)
        self.assertIn("src/core/runtime.hpp:1", output)

    def test_the_tree_without_anything_planted_passes(self):
        self.assertEqual(self.check("check_locks", {})[0], 0)

    def test_locks_that_the_analysis_does_not_know_are_refused(self):
        for lock in ("std::mutex mutex_;", "std::shared_mutex mutex_;", "const std::lock_guard guard(mutex_);"):
            self.refused(lock + "\n")

    def test_guarded_by_is_said_to_the_compiler(self):
        self.refused("int count_ = 0;  ///< guarded by mutex_\n")
        self.refused("/// Guarded by the device's lock.\n")


class Skipped(Planted):
    def skipped(self, reason, *runs):
        log = "".join(f"{i + 1}/9 Testing: {run}\n" for i, run in enumerate(runs))
        log += f"9/9 Testing: errors.all\n/a/b.cpp:7: Skipped\n{reason}\n"
        return self.check("skipped", {"Testing/Temporary/LastTest.log": log})

    def test_tests_of_two_devices_want_a_run_with_two(self):
        reason = "needs two devices of backend 'cpu', and there is one: set WEIR_CPU_DEVICES=2"
        status, output = self.skipped(reason)
        self.assertEqual(status, 1, output)
        self.assertIn("wrongly skipped: errors.all", output)
        self.assertEqual(self.skipped(reason, "errors.two_devices")[0], 0)

    def test_other_backends_have_as_many_as_they_have(self):
        self.assertEqual(self.skipped("needs two devices of backend 'toy', and there is one")[0], 0)


class Documents(Planted):
    PAGES = {"README.md": "# Weir\n\n[order](docs/order.md)\n", "docs/order.md": "# Order\n\n## Of work\n\n[up](../README.md)\n"}

    def test_links_that_lead_somewhere_pass(self):
        status, output = self.check("check_docs", {**self.PAGES, "README.md": "# Weir\n\n[order](docs/order.md#of-work), `src/core`\n"})
        self.assertEqual(status, 0, output)

    def test_links_that_lead_nowhere_are_found(self):
        for planted in ("[x](docs/none.md)", "[x](docs/order.md#of-play)", "`docs/none.md`", "![x](docs/none.png)"):
            status, output = self.check("check_docs", {**self.PAGES, "README.md": f"# Weir\n\n[order](docs/order.md) {planted}\n"})
            self.assertEqual(status, 1, planted)
            self.assertIn("README.md:3", output)

    def test_pages_that_nobody_reaches_are_found(self):
        status, output = self.check("check_docs", {**self.PAGES, "docs/lost.md": "# Lost\n"})
        self.assertEqual(status, 1)
        self.assertIn("docs/lost.md", output)

    def test_pages_without_a_title_are_found(self):
        for planted in ("", "No title.\n"):
            status, output = self.check("check_docs", {**self.PAGES, "docs/decisions/0001-empty.md": planted})
            self.assertEqual(status, 1, planted)
            self.assertIn("docs/decisions/0001-empty.md:1", output)

    def test_public_calls_without_a_contract_are_found(self):
        header = "#pragma once\n\nnamespace weir {\n\nvoid wait_for_it(int a);\n\n}  // namespace weir\n"
        status, output = self.check("check_docs", {**self.PAGES, "include/weir/wait.hpp": header})
        self.assertEqual(status, 1, output)
        self.assertIn("include/weir/wait.hpp:5", output)

    def test_what_has_a_base_of_the_librarys_own_is_public(self):
        header = "#pragma once\n\nnamespace weir {\n\n/// A thing.\nclass Thing : detail::Base {\n public:\n  void go(int a);\n};\n\n}  // namespace weir\n"
        status, output = self.check("check_docs", {**self.PAGES, "include/weir/thing.hpp": header})
        self.assertEqual(status, 1, output)
        self.assertIn("include/weir/thing.hpp:8", output)


if __name__ == "__main__":
    unittest.main()

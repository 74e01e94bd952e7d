"""The man page and the completions have every command and every option."""
import re
import shutil
import subprocess
import unittest

from program import Case


class Manual(Case):
    def commands(self):
        lines = self.run_program("--help").stdout.splitlines()
        names = [match[1] for match in (re.match(r"  ([a-z]+) +\S", line) for line in lines) if match]
        return [name for name in names if name != "tapedeck"]

    def options(self, command):
        """As the program's own tables have them."""
        script = self.run_program("--completion", "bash").stdout
        return re.search(rf"    {command}\) options=\"(.*?)\"", script)[1].split()

    def test_every_option_of_every_command_is_in_its_help_and_in_the_man_page(self):
        page = self.run_program("--man").stdout.replace("\\-", "-")
        self.assertGreater(len(self.commands()), 9)
        for command in self.commands():
            said = self.run_program(command, "--help").stdout
            self.assertEqual(self.run_program("help", command).stdout, said)
            self.assertIn(f'.SH "TAPEDECK {command}"', page)
            for option in self.options(command):
                if option != "--help":
                    self.assertIn(option, said, command)
                    self.assertIn(option, page, command)
            for option in set(re.findall(r"^  (--[a-z-]+)", said, re.M)) - {"--help"}:
                self.assertIn(option, self.options(command), command)

    def test_the_shells_take_their_completions(self):
        for shell, check in (("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["--no-execute"])):
            script = self.run_program("--completion", shell).stdout
            for command in self.commands():
                self.assertIn(command, script)
                for option in self.options(command):
                    word = option.strip("-")
                    fish = ("-l " if len(word) > 1 else "-s ") + word
                    self.assertIn(fish if shell == "fish" else option, script)
            if shutil.which(shell):
                self.write("script", script)
                subprocess.run([shell, *check, self.path("script")], check=True)
        self.assertIn("expected bash, zsh or fish", self.run_program("--completion", "cmd", status=2).stderr)

    def test_bash_completes_commands_and_options(self):
        self.write("script", self.run_program("--completion", "bash").stdout)
        for words, expected in ((["tapedeck", "tra"], "train"), (["tapedeck", "predict", "--lab"], "--labels")):
            line = " ".join(f"'{word}'" for word in words)
            done = subprocess.run(["bash", "-c", f"compopt() {{ :; }}; . {self.path('script')}; COMP_WORDS=({line}); "
                                   f"COMP_CWORD={len(words) - 1}; _tapedeck; printf '%s\\n' \"${{COMPREPLY[@]}}\""],
                                  stdout=subprocess.PIPE, text=True, check=True)
            self.assertIn(expected, done.stdout.split())

    def test_man_formats_the_page_without_a_word(self):
        if shutil.which("groff"):
            self.write("page.1", self.run_program("--man").stdout)
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", self.path("page.1")],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
            self.assertIn("tapedeck", done.stdout)


if __name__ == "__main__":
    unittest.main()

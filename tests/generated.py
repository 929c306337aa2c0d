"""Replaces a generated table of a page, with the command, the build and the load of the machine."""
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
END = "<!-- end -->"


def replace(file, script, arguments, lines):
    """Puts `lines` between the marks of `script` in `file`."""
    git = ["git", "-C", HERE, "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    command = " ".join([script, *arguments])
    text = "\n".join([f"\n`{command}`\n", f"Build of {commit}; load average "
                      f"{os.getloadavg()[2]:.0f}.\n", *lines, "\n"])
    begin = f"<!-- generated: {script} -->\n"
    before, rest = pathlib.Path(file).read_text().split(begin)
    pathlib.Path(file).write_text(before + begin + text + END + rest.split(END, 1)[1])

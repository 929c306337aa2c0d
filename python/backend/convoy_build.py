"""Builds the wheel of convoy_perf: a build backend (PEP 517), and a command for releases.

The wheel is the package, and the program `convoy` as a script if a binary is given. Nothing is
compiled, so this page of the standard library is enough. From a checkout, `pip install ./python`
makes a wheel without the program; `pip install --config-settings binary=target/release/convoy`
includes one.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import sysconfig
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = HERE / "convoy_perf"
LICENSES = ("LICENSE-MIT", "LICENSE-APACHE")


def _project():
    """Version and other fields of pyproject.toml that metadata repeats."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")

    def field(name):
        return re.search(rf'^{name} = "(.*)"$', text, re.MULTILINE).group(1)

    extras = re.search(r"^\[project.optional-dependencies\]\n((?:.+\n)*)", text, re.MULTILINE)
    rows = re.findall(r"^(\w+) = \[(.*)\]$", extras.group(1), re.MULTILINE)
    extras = {name: re.findall(r'"([^"]*)"', packages) for name, packages in rows}
    classifiers = re.search(r"^classifiers = \[\n((?:.+\n)*?)\]", text, re.MULTILINE).group(1)
    keywords = re.search(r"^keywords = \[(.*)\]$", text, re.MULTILINE).group(1)
    return {
        "version": field("version"),
        "description": field("description"),
        "python": field("requires-python"),
        "license": re.search(r'^license = \{ text = "(.*)" \}$', text, re.MULTILINE).group(1),
        "keywords": ",".join(re.findall(r'"([^"]*)"', keywords)),
        "classifiers": re.findall(r'"([^"]*)"', classifiers),
        "extras": extras,
    }


def _metadata():
    project = _project()
    lines = [
        "Metadata-Version: 2.1",
        "Name: convoy-perf",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        *(f"License-File: {name}" for name in LICENSES),
        f"Keywords: {project['keywords']}",
        f"Requires-Python: {project['python']}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        "Description-Content-Type: text/markdown",
    ]
    for name, packages in project["extras"].items():
        lines.append(f"Provides-Extra: {name}")
        lines += [f'Requires-Dist: {package} ; extra == "{name}"' for package in packages]
    return "\n".join(lines) + "\n\n" + (HERE / "README.md").read_text(encoding="utf-8")


def _write(path, tag, binary):
    """Writes the wheel: its bytes depend only on its contents and SOURCE_DATE_EPOCH."""
    version = _project()["version"]
    info = f"convoy_perf-{version}.dist-info"
    # A zip archive has no times before 1980.
    epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)
    when = time.gmtime(epoch)[:6]
    files = [
        (f"convoy_perf/{file.relative_to(PACKAGE).as_posix()}", file.read_bytes(), 0o644)
        for file in sorted(PACKAGE.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    ]
    if binary:
        data = pathlib.Path(binary).read_bytes()
        files.append((f"convoy_perf-{version}.data/scripts/convoy", data, 0o755))
    pure = "false" if binary else "true"
    wheel = f"Wheel-Version: 1.0\nGenerator: convoy_build\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    for name in LICENSES:
        file = HERE.parent / name
        if file.exists():
            files.append((f"{info}/licenses/{name}", file.read_bytes(), 0o644))
    files.append((f"{info}/METADATA", _metadata().encode(), 0o644))
    files.append((f"{info}/WHEEL", wheel.encode(), 0o644))
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            record += f"{name},sha256={digest.decode()},{len(data)}\n"
            _put(archive, name, data, mode, when)
        _put(archive, f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644, when)


def _put(archive, name, data, mode, when):
    entry = zipfile.ZipInfo(name, when)
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The hook of PEP 517; the setting `binary` names a program to include."""
    binary = (config_settings or {}).get("binary")
    machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return _named(wheel_directory, machine if binary else "any", binary)


def get_requires_for_build_wheel(config_settings=None):
    """Nothing is required."""
    return []


def _named(directory, platform, binary):
    tag = f"py3-none-{platform}"
    name = f"convoy_perf-{_project()['version']}-{tag}.whl"
    _write(pathlib.Path(directory) / name, tag, binary)
    return name


def main():
    """Writes a wheel for a release."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary")
    parser.add_argument("--platform", default="any")
    parser.add_argument("directory")
    arguments = parser.parse_args()
    print(_named(arguments.directory, arguments.platform, arguments.binary))


if __name__ == "__main__":
    main()

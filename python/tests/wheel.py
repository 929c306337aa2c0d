"""What the wheel says of itself; needs nothing but the standard library."""

import email
import pathlib
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python" / "backend"))

import convoy_build  # noqa: E402


def main():
    with tempfile.TemporaryDirectory() as place:
        wheel = zipfile.ZipFile(pathlib.Path(place, convoy_build.build_wheel(place)))
        names = wheel.namelist()
        info = next(name for name in names if name.endswith("/METADATA"))
        metadata = email.message_from_bytes(wheel.read(info))
        for license in metadata.get_all("License-File"):
            packed = wheel.read(info.replace("METADATA", f"licenses/{license}"))
            assert packed == (ROOT / license).read_bytes(), license
    assert len(metadata.get_all("License-File")) == 2
    classifiers = metadata.get_all("Classifier")
    for wanted in ("License :: OSI Approved :: MIT License", "Typing :: Typed"):
        assert wanted in classifiers, classifiers
    assert len(classifiers) == len(set(classifiers)) > 8, classifiers
    # The first example of docs/python.md makes tables of pandas.
    extras = metadata.get_all("Requires-Dist")
    for package in ("pyarrow", "pandas"):
        assert any(one.startswith(package) and "tables" in one for one in extras), extras


main()

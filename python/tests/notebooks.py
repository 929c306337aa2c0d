"""Executes the notebooks, each in its directory; an error in a cell fails.

Usage: notebooks.py NOTEBOOK...; needs nbclient, ipykernel and what the notebooks import.
"""

import pathlib
import sys

import nbclient
import nbformat


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        notebook = nbformat.read(path, as_version=4)
        place = {"metadata": {"path": str(path.parent)}}
        nbclient.NotebookClient(notebook, timeout=600, resources=place).execute()
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert any(cell.outputs for cell in cells), f"{path}: no cell has an output"
        print(f"{path.name}: {len(cells)} cells")


if __name__ == "__main__":
    main()

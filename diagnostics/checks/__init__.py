"""One file per diagnosis. A file is found by walking this folder; its name is the check's id."""

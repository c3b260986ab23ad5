"""One file per rule. A file is found by walking this folder; its name is the rule's id."""

"""How the processes of a launch find their run: by variables, files of the node, a store."""

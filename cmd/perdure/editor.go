package main

import (
	"context"
	"os"
	"os/exec"
)

// edit starts an editor on a file, as git does: what VISUAL and EDITOR hold is a command line of the shell.
func edit(ctx context.Context, editor, file string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

package app

import (
	"context"
	"os"
	"os/exec"
)

// edit opens a file in an editor, like git: VISUAL and EDITOR contain a shell command line.
func edit(ctx context.Context, editor, file string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

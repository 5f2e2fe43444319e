package app

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/perdure/perdure"
)

// terminalKeys switches the terminal to unbuffered keys without echo. Ctrl-Q reaches the program,
// and so does Ctrl-\\, which would otherwise kill it with the terminal still in this mode. The
// returned function restores the terminal. It uses stty, which exists on all systems with such
// terminals. Unavailable: there is no stty, and input arrives in lines.
func terminalKeys() (restore func() error, err error) {
	before, err := stty("-g")
	if err != nil {
		return nil, err
	}
	if _, err := stty("-icanon", "-echo", "-ixon", "quit", "undef", "min", "1", "time", "0"); err != nil {
		return nil, err
	}
	return func() error {
		_, err := stty(strings.TrimSpace(before))
		return err
	}, nil
}

func stty(args ...string) (string, error) {
	cmd := exec.Command("stty", args...)
	cmd.Stdin = os.Stdin
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: stty: %w", perdure.Unavailable, err)
	}
	return string(out), nil
}

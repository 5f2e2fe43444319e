package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/perdure/perdure"
)

// terminalKeys lets keys come one by one, without an echo, and Ctrl-Q reach us, and so does Ctrl-\, which would end us with the
// terminal as it is then. The returned function puts the terminal back as it was. It asks stty, which every system with terminals of
// this kind has. Unavailable: there is none, and keys come in lines.
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

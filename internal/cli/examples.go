package cli

import (
	_ "embed"
	"strings"
)

// exampleText holds the examples of every command. A line "# PATH" begins those of a command; those
// of the program itself have no path. Tests run each of them.
//
//go:embed examples.txt
var exampleText string

// Examples returns the example command lines of all commands, by the path of the command.
func Examples() map[string][]string {
	all, path := map[string][]string{}, ""
	for line := range strings.Lines(exampleText) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "#"); ok {
			path = strings.TrimSpace(heading)
			continue
		}
		if line != "" {
			all[path] = append(all[path], line)
		}
	}
	return all
}

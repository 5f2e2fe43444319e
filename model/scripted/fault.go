package scripted

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// fault says what is wrong with a script, and where.
type fault struct {
	path string // for example steps[1].calls[0].args; empty: the whole script
	line int    // 0: the line of the path
	text string
}

func newFault(path, format string, args ...any) *fault {
	return &fault{path: path, text: fmt.Sprintf(format, args...)}
}

// Error returns path and text.
func (f *fault) Error() string {
	if f.path == "" {
		return f.text
	}
	return f.path + ": " + f.text
}

// scriptError returns the error for people. lines are the lines of the paths; nil if there is no
// file.
func scriptError(source string, err error, lines map[string]int) error {
	var f *fault
	if errors.As(err, &f) {
		if line := f.lineOf(lines); line > 0 {
			source += ":" + strconv.Itoa(line)
		}
	}
	return fmt.Errorf("%w script %s: %w", perdure.Invalid, source, err)
}

// lineOf returns the line of the fault, or of the closest enclosing node.
func (f *fault) lineOf(lines map[string]int) int {
	if f.line > 0 {
		return f.line
	}
	for path := f.path; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if line, ok := lines[path]; ok {
			return line
		}
	}
	return 0
}

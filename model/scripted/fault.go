package scripted

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// fault is what is wrong with a script, and where.
type fault struct {
	path string // like steps[1].calls[0].args; empty: the script as a whole
	line int    // 0: that of the path
	text string
}

func faultAt(path, format string, args ...any) *fault {
	return &fault{path: path, text: fmt.Sprintf(format, args...)}
}

// Error returns path and text.
func (f *fault) Error() string {
	if f.path == "" {
		return f.text
	}
	return f.path + ": " + f.text
}

// refuse makes the error that a person reads of a fault. lines are those of the paths; nil: there is no file.
func refuse(source string, err error, lines map[string]int) error {
	var f *fault
	if errors.As(err, &f) {
		if line := f.lineIn(lines); line > 0 {
			source += ":" + strconv.Itoa(line)
		}
	}
	return fmt.Errorf("%w script %s: %w", perdure.Invalid, source, err)
}

// lineIn returns the line of the fault, or else that of what it stands in.
func (f *fault) lineIn(lines map[string]int) int {
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

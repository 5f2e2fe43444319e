package tool

import (
	"strings"
	"unicode"

	"github.com/perdure/perdure"
)

// The bounds of a session file's path (FI1).
const (
	maxPathBytes = 4096
	maxPathDepth = 64
)

// CleanPath normalises the path of a session file once: absolute, with forward slashes, without a slash at
// its end. What could name anything else is refused as a *FileError of kind Invalid: a relative path, "..",
// "//", NUL, backslash, control characters, over 4,096 bytes or over 64 levels (FI1).
func CleanPath(name string) (string, error) {
	switch {
	case name == "" || name[0] != '/':
		return "", badPath(name, "it must be absolute and begin with /")
	case len(name) > maxPathBytes:
		return "", badPath(name, "it is longer than 4,096 bytes")
	case strings.Contains(name, "//"):
		return "", badPath(name, "it has an empty part")
	case strings.ContainsRune(name, '\\'):
		return "", badPath(name, "it has a backslash")
	case strings.ContainsFunc(name, unicode.IsControl) || strings.ToValidUTF8(name, "") != name:
		return "", badPath(name, "it has a character that no name may have")
	}
	var parts []string
	for _, part := range strings.Split(name[1:], "/") {
		if part == ".." {
			return "", badPath(name, `it has ".."`)
		}
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	if len(parts) > maxPathDepth {
		return "", badPath(name, "it is deeper than 64 levels")
	}
	return "/" + strings.Join(parts, "/"), nil
}

func badPath(name, why string) error {
	return &FileError{Kind: perdure.Invalid, Text: "Invalid path " + strings.ToValidUTF8(strings.Map(printable, clip(name, 100)), "") + ": " + why}
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}

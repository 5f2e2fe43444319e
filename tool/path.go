package tool

import (
	"strings"
	"unicode"

	"github.com/perdure/perdure"
)

// The limits of a session file's path.
const (
	maxPathBytes = 4096
	maxPathDepth = 64
)

// CleanPath normalises the path of a session file: absolute, with forward slashes, without a slash
// at the end. A path that could be read in another way is refused as a *FileError of kind Invalid:
// a relative path, "..", "//", NUL, a backslash, control characters, more than 4,096 bytes or 64
// levels.
func CleanPath(name string) (string, error) {
	switch {
	case name == "" || name[0] != '/':
		return "", badPath(name, "it must be absolute and start with /")
	case len(name) > maxPathBytes:
		return "", badPath(name, "it is longer than 4,096 bytes")
	case strings.Contains(name, "//"):
		return "", badPath(name, "it contains an empty part")
	case strings.ContainsRune(name, '\\'):
		return "", badPath(name, "it contains a backslash")
	case strings.ContainsFunc(name, unicode.IsControl) || strings.ToValidUTF8(name, "") != name:
		return "", badPath(name, "it contains a character that is not allowed")
	}
	var parts []string
	for _, part := range strings.Split(name[1:], "/") {
		if part == ".." {
			return "", badPath(name, `it contains ".."`)
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

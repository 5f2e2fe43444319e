// Package file holds the seven tools for a session's files (TL27), and [Dir], which keeps such
// files in a folder of the host.
//
// It may import the root, tool and doublestar. The one thing to know: the tools do not know where
// the files are. They use only the port tool.Files, and the port decides what they may access.
package file

import (
	"strings"

	"github.com/perdure/perdure/tool"
)

// workspace is the concurrency class of tools that change files; tools that only read have none
// (TL29).
const workspace = "session_workspace"

// Tools returns the tools, in the order in which they are listed to models.
func Tools() []tool.Tool {
	return []tool.Tool{ReadFile(), WriteFile(), EditFile(), ListDirectory(), GrepFiles(), DeleteFile(), StatFile()}
}

// files returns the port, or the tool error if it is missing (EN2).
func files(env tool.Env, name string) (tool.Files, error) {
	if env.Files == nil {
		return nil, tool.Errorf("%s", tool.Missing("Session file store", name+" requires the files of a session.").Text)
	}
	return env.Files, nil
}

// described returns the tool description from its file.
func described(text string) string { return strings.TrimSpace(text) }

// ptrTrue returns a hint that is true.
func ptrTrue() *bool {
	set := true
	return &set
}

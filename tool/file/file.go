// Package file holds the seven tools for a session's files (TL27), and [Dir], which keeps such files in a
// folder of the host.
//
// It may import the root, tool and doublestar. The one thing to know: the tools know nothing of where the
// files are. They see the port tool.Files and nothing else, so what they may touch is decided there.
package file

import (
	"strings"

	"github.com/perdure/perdure/tool"
)

// workspace is the concurrency class of what changes files; reads have none (TL29).
const workspace = "session_workspace"

// Tools returns the set, in the order in which models are told of it.
func Tools() []tool.Tool {
	return []tool.Tool{ReadFile(), WriteFile(), EditFile(), ListDirectory(), GrepFiles(), DeleteFile(), StatFile()}
}

// files returns the port, or the tool error for its absence (EN2).
func files(env tool.Env, name string) (tool.Files, error) {
	if env.Files == nil {
		return nil, tool.Errorf("%s", tool.Missing("Session file store", name+" requires the files of a session.").Text)
	}
	return env.Files, nil
}

// described takes the text that the model reads from its file.
func described(text string) string { return strings.TrimSpace(text) }

// yes is a hint that is set.
func yes() *bool {
	set := true
	return &set
}

// Package file holds the seven tools for a session's files (TL27), and [Dir], which keeps such files in a
// folder of the host.
//
// It may import the root, tool and doublestar. The one thing to know: the tools know nothing of where the
// files are. They see the port tool.Files and nothing else, so what they may touch is decided there.
package file

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/tool"
)

// workspace is the concurrency class of what changes files; reads have none (TL29).
const workspace = "session_workspace"

// The ways to write content in JSON (FI2).
const (
	encodingText   = "text"
	encodingBase64 = "base64"
)

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

// isText reports whether content is written as text: no NUL among the first 8,192 bytes, and UTF-8 (FI2).
func isText(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), 8192)], 0) < 0 && utf8.Valid(content)
}

// encoded returns content for JSON with its encoding.
func encoded(content []byte) (text, encoding string) {
	if isText(content) {
		return string(content), encodingText
	}
	return base64.StdEncoding.EncodeToString(content), encodingBase64
}

// described takes the text that the model reads from its file.
func described(text string) string { return strings.TrimSpace(text) }

// yes is a hint that is set.
func yes() *bool {
	set := true
	return &set
}

// Package core holds the tools that every agent has: echo, the time, arithmetic, progress and a list of
// todos (TL27).
//
// It may import the root and tool. The one thing to know: none of them reaches anything outside the call,
// so that they work in every session and in tests without one.
package core

import (
	"strings"

	"github.com/perdure/perdure/tool"
)

// Tools returns the set, in the order in which models are told of it.
func Tools() []tool.Tool {
	return []tool.Tool{GetCurrentTime(), Echo(), ReportProgress(), Add(), Subtract(), Multiply(), Divide(), WriteTodos()}
}

// described takes the text that the model reads from its file.
func described(text string) string { return strings.TrimSpace(text) }

// yes is a hint that is set.
func yes() *bool {
	set := true
	return &set
}

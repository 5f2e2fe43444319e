// Command perdure is a durable runtime for the tool calls of AI agents.
//
// It may import anything, and only starts internal/app, which wires the adapters. The one thing to
// know: Main first turns this program into the supervisor of a command when it was started as one.
package main

import "github.com/perdure/perdure/internal/app"

func main() { app.Main(app.Program{}) }

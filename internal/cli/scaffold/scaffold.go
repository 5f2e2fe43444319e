// Package scaffold generates a new tool: its code, and a crash test that kills the runtime around
// it.
//
// It may import the root. The one thing to know: it writes no files, it only returns their content.
// A test builds and runs them.
package scaffold

import (
	"fmt"
	"go/token"
	"regexp"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// Module is the module path of Perdure.
const Module = "github.com/perdure/perdure"

// Tool describes a new tool. Name and Class are required.
type Tool struct {
	Name    string              // lower-case letters and digits, words separated by _
	Class   perdure.EffectClass // of its calls
	Version string              // of Perdure; a version from a checkout cannot be downloaded, and is left out of go.mod
	Replace string              // checkout of Perdure to use instead; empty: none
}

// File is one generated file.
type File struct{ Name, Text string }

// Files returns the files of the tool. Invalid: the name is not valid for a Go package or a tool.
func (t Tool) Files() ([]File, error) {
	pkg := strings.ReplaceAll(t.Name, "_", "")
	if !regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`).MatchString(t.Name) || len(t.Name) > 64 {
		return nil, fmt.Errorf("%w name %q: use at most 64 lower-case letters and digits, with words separated by _, as in send_mail", perdure.Invalid, t.Name)
	}
	if token.IsKeyword(pkg) || pkg == "main" || pkg == "documentation" { // Go treats a package of that name differently
		return nil, fmt.Errorf("%w name %q: Go reserves it, so it cannot be the name of a package", perdure.Invalid,
			t.Name)
	}
	filled := strings.NewReplacer("TOOL", t.Name, "PACKAGE", pkg, "EXPORTED", camel(t.Name), "CLASS",
		camel(string(t.Class)), "WHY", classReason(t.Class), "REQUIRES", t.requires())
	files := []File{{"go.mod", newModule}, {"tool.go", newTool}, {"tool_test.go", newTest}}
	for i := range files {
		files[i].Text = filled.Replace(files[i].Text)
	}
	return files, nil
}

// Next returns the command to run the crash test, for the folder of the tool.
func (t Tool) Next() string {
	if t.requires() == "" {
		return "go get " + Module + "@latest && go test -mod=mod ./..."
	}
	return "go test -mod=mod ./..." // this also completes go.mod and go.sum
}

// requires returns the requirement of Perdure for go.mod; empty: the version is unknown.
func (t Tool) requires() string {
	switch {
	case t.Replace != "":
		return "\nrequire " + Module + " v0.0.0\n\nreplace " + Module + " => " + strconv.Quote(t.Replace) + "\n"
	case regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(t.Version):
		return "\nrequire " + Module + " " + t.Version + "\n"
	}
	return ""
}

// camel converts snake case to an exported Go name.
func camel(words string) string {
	name := ""
	for word := range strings.SplitSeq(words, "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// classReason explains an effect class.
func classReason(class perdure.EffectClass) string {
	switch class {
	case perdure.Pure:
		return "it changes nothing, so it can always run again"
	case perdure.Idempotent:
		return "it can run twice with the same key, and takes effect once"
	}
	return "it must not happen twice, so after a crash its outcome may be unknown"
}

const newModule = `module example.com/TOOL

go 1.26.0
REQUIRES`

const newTool = `// Package PACKAGE contains a tool for agents.
package PACKAGE

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

type in struct {
	Name string ` + "`" + `json:"name" minLength:"1" jsonschema:"Name of the person to greet."` + "`" + `
}

type out struct {
	Greeting string ` + "`" + `json:"greeting"` + "`" + `
}

// EXPORTED returns the tool. Its class says what happens to a call that a crash cut in half: WHY.
func EXPORTED() tool.Tool {
	spec := tool.Spec{Name: "TOOL", Description: "Greets somebody.", Class: perdure.CLASS}
	return tool.New(spec, func(ctx context.Context, in in, env tool.Env) (out, error) {
		env.Sink.Progress(1, 1, "greeting") // env.Call.Key is the same on every attempt
		return out{Greeting: "Hello, " + in.Name + "."}, ctx.Err()
	})
}
`

const newTest = `package PACKAGE

import (
	"testing"

	"github.com/perdure/perdure/tool/tooltest"
)

// TestCrash kills a runtime at every step around the tool, starts another one, and checks the
// effects. Use go test -v to list the steps.
func TestCrash(t *testing.T) {
	t.Parallel()
	tooltest.Crash(t, EXPORTED(), in{Name: "you"})
}
`

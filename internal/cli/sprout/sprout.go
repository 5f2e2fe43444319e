// Package sprout is the room of the command line for what a new tool begins with: its code, and the test that kills the runtime
// around it (F4).
//
// It may import the root. The one thing to know: it writes no file, it says what would stand in them; a test builds and runs them.
package sprout

import (
	"fmt"
	"go/token"
	"regexp"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// Module is the library that a tool is written for.
const Module = "github.com/perdure/perdure"

// Tool is a new tool. Name and Class are required.
type Tool struct {
	Name    string              // small letters and digits, with a _ between words
	Class   perdure.EffectClass // of a call
	Version string              // of Perdure; one that was built from a checkout cannot be had by others, and go.mod names none then
	Replace string              // a checkout of Perdure that is used instead; empty: none is
}

// File is one of its files.
type File struct{ Name, Text string }

// Files are those of its folder. Invalid: the name is none for a tool of Go.
func (t Tool) Files() ([]File, error) {
	pkg := strings.ReplaceAll(t.Name, "_", "")
	if !regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`).MatchString(t.Name) || len(t.Name) > 64 {
		return nil, fmt.Errorf("%w name %q: a tool is called by at most 64 small letters and digits, with a _ between words, as in send_mail", perdure.Invalid, t.Name)
	}
	if token.IsKeyword(pkg) || pkg == "main" || pkg == "documentation" { // Go takes a package of that name for something else
		return nil, fmt.Errorf("%w name %q: it means something to Go, and can be no package", perdure.Invalid, t.Name)
	}
	filled := strings.NewReplacer("TOOL", t.Name, "PACKAGE", pkg, "EXPORTED", camel(t.Name), "CLASS", camel(string(t.Class)), "WHY", why(t.Class), "REQUIRES", t.requires())
	files := []File{{"go.mod", newModule}, {"tool.go", newTool}, {"tool_test.go", newTest}}
	for i := range files {
		files[i].Text = filled.Replace(files[i].Text)
	}
	return files, nil
}

// Next is what is typed in the folder to see the tool survive.
func (t Tool) Next() string {
	if t.requires() == "" {
		return "go get " + Module + "@latest && go test -mod=mod ./..."
	}
	return "go test -mod=mod ./..." // which fills in go.mod and go.sum
}

// requires is what go.mod says of Perdure; empty: it is not known yet.
func (t Tool) requires() string {
	switch {
	case t.Replace != "":
		return "\nrequire " + Module + " v0.0.0\n\nreplace " + Module + " => " + strconv.Quote(t.Replace) + "\n"
	case regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(t.Version):
		return "\nrequire " + Module + " " + t.Version + "\n"
	}
	return ""
}

// camel writes words with _ between them as Go does.
func camel(words string) string {
	name := ""
	for word := range strings.SplitSeq(words, "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// why says what a class stands for.
func why(class perdure.EffectClass) string {
	switch class {
	case perdure.Pure:
		return "it changes nothing, so it may always run again"
	case perdure.Idempotent:
		return "run twice under one key, it does what it does once"
	}
	return "it must not happen twice, so a crash may leave it unknown"
}

const newModule = `module example.com/TOOL

go 1.26.0
REQUIRES`

const newTool = `// Package PACKAGE has a tool for agents.
package PACKAGE

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

type in struct {
	Name string ` + "`" + `json:"name" minLength:"1" jsonschema:"Whom to greet."` + "`" + `
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

// TestCrash kills a runtime at every step around the tool, starts another one, and checks what it did; go test -v tells of each.
func TestCrash(t *testing.T) {
	t.Parallel()
	tooltest.Crash(t, EXPORTED(), in{Name: "you"})
}
`

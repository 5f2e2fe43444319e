package core

import (
	"context"
	_ "embed" // the tool description
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed load_tool.md
var loadToolText string

type loadToolIn struct {
	Name  string `json:"name,omitempty" jsonschema:"The tool's name, as it is listed or found."`
	Query string `json:"query,omitempty" jsonschema:"Instead of a name: words of the names and descriptions of tools."`
}

type loadToolOut struct {
	Name         string          `json:"name,omitempty"`
	Description  string          `json:"description,omitempty"`
	Parameters   json.RawMessage `json:"parameters,omitempty" jsonschema:"The schema of the arguments."`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Found        []foundTool     `json:"found,omitempty" jsonschema:"The tools that match the query, the best first."`
	More         int             `json:"more,omitempty" jsonschema:"How many other tools match."`
}

type foundTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// maxFound is how many tools a search returns, and maxFoundText how many characters of each
// description.
const (
	maxFound     = 20
	maxFoundText = 200
)

// LoadTool returns the tool that finds other tools, and returns their full definitions. It is not
// one of the defaults: a host registers it in addition, and a session has it if a schema is
// deferred there, or a tool is not described to the model.
func LoadTool() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "load_tool",
		DisplayName: "Load Tool",
		Narration:   tool.Narration{Started: "Loading a tool[: {name}]", Completed: "Loaded a tool[: {name}]", Failed: "Could not load a tool[: {name}]"},
		Description: described(loadToolText),
		Class:       perdure.Pure,
		SessionOnly: true,
		Trusted:     true,
		Deferrable:  tool.DeferNever,
		Hints:       tool.Hints{ReadOnly: yes(), Idempotent: yes(), CapabilityID: tool.LoadingCapability},
	}, func(_ context.Context, in loadToolIn, env tool.Env) (loadToolOut, error) {
		if env.Registry == nil {
			return loadToolOut{}, tool.Errorf("%s", tool.Missing("Tool registry", "load_tool requires the tools of a session.").Text)
		}
		switch all := env.VisibleDefinitions(); {
		case in.Name != "":
			return load(all, in.Name)
		case strings.TrimSpace(in.Query) != "":
			return find(all, in.Query)
		}
		return loadToolOut{}, tool.Errorf("Give the name of a tool, or a query to find one.")
	})
}

// load returns the definition of a tool.
func load(all []tool.Definition, name string) (loadToolOut, error) {
	for _, d := range all {
		if d.Name == name {
			return loadToolOut{Name: d.Name, Description: d.Description, Parameters: d.Parameters, OutputSchema: d.OutputSchema}, nil
		}
	}
	return loadToolOut{}, tool.Errorf("Tool definition not found: %s", name)
}

// find returns the tools whose names and descriptions contain words of a query. A word in a name
// counts more than one in a description.
func find(all []tool.Definition, query string) (out loadToolOut, err error) {
	words := strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	scores := map[string]int{}
	for _, d := range all {
		name, text := strings.ToLower(d.Name+" "+d.DisplayName), strings.ToLower(d.Description)
		for _, word := range words {
			if strings.Contains(name, word) {
				scores[d.Name] += 3
			}
			if strings.Contains(text, word) {
				scores[d.Name]++
			}
		}
	}
	all = slices.DeleteFunc(slices.Clone(all), func(d tool.Definition) bool { return scores[d.Name] == 0 })
	if len(all) == 0 {
		return out, tool.Errorf("No tool matches %q. Try other words, for instance the name of the service.", query)
	}
	slices.SortStableFunc(all, func(a, b tool.Definition) int { return scores[b.Name] - scores[a.Name] })
	for _, d := range all[:min(len(all), maxFound)] {
		text := []rune(strings.Join(strings.Fields(d.Description), " "))
		out.Found = append(out.Found, foundTool{d.Name, string(text[:min(len(text), maxFoundText)])})
	}
	out.More = len(all) - len(out.Found)
	return out, nil
}

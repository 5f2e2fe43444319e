package core

import (
	"context"
	_ "embed" // the tool description
	"encoding/json"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed load_tool.md
var loadToolText string

type loadToolIn struct {
	Name string `json:"name" jsonschema:"The tool's name, as it is listed."`
}

type loadToolOut struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Parameters   json.RawMessage `json:"parameters" jsonschema:"The schema of the arguments."`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
}

// LoadTool returns the tool that returns the full definition of another tool. It is not one of the
// defaults: a host registers it in addition, and a session has it if a schema is deferred there.
func LoadTool() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "load_tool",
		DisplayName: "Load Tool",
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
		for _, d := range env.VisibleDefinitions() {
			if d.Name == in.Name {
				return loadToolOut{Name: d.Name, Description: d.Description, Parameters: d.Parameters, OutputSchema: d.OutputSchema}, nil
			}
		}
		return loadToolOut{}, tool.Errorf("Tool definition not found: %s", in.Name)
	})
}

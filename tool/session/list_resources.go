package session

import (
	"context"
	_ "embed" // the text that the model reads
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// ResourcesCapability is what brings list_resources into a session.
const ResourcesCapability = "session_resources"

const listResourcesName = "list_resources"

//go:embed list_resources.md
var listResourcesText string

// anyStatus asks for entries of every status.
const anyStatus = "any"

// listResourcesBytes is how many bytes of entries stand in an answer, so that it is not cut as a result (TL16).
const listResourcesBytes = tool.ResultLimit - 512

type listResourcesIn struct {
	Kind   string `json:"kind,omitempty" jsonschema:"Only entries of this kind, for instance sandbox"`
	Status string `json:"status" enum:"active,completed,failed,released,any" default:"active" jsonschema:"Only entries with this status"`
}

type listResourcesOut struct {
	Resources []tool.Resource `json:"resources"`
	LeftOut   int             `json:"left_out,omitempty" jsonschema:"How many more there are: ask by kind or status"`
}

// ListResources returns the tool that says what runs beside the session (RS1).
func ListResources() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        listResourcesName,
		DisplayName: "List Resources",
		Description: strings.TrimSpace(listResourcesText),
		Class:       perdure.Pure,
		Inside:      true,
		NeedsEnv:    true,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: ResourcesCapability},
	}, listResources)
}

func listResources(ctx context.Context, in listResourcesIn, env tool.Env) (tool.Result, error) {
	if env.Resources == nil {
		return tool.Missing("Session resource registry", listResourcesName+" requires it to know what runs beside the session."), nil
	}
	status := tool.ResourceStatus(in.Status)
	if in.Status == anyStatus {
		status = ""
	}
	found, err := env.Resources.List(ctx, in.Kind, status)
	if err != nil {
		return tool.Result{}, fmt.Errorf("list resources: %w", err)
	}
	out, size := listResourcesOut{Resources: []tool.Resource{}}, 0
	for i, r := range found {
		record, err := tool.Success(r).Record("")
		if err != nil {
			return tool.Result{}, fmt.Errorf("write resource %q: %w", r.ID, err)
		}
		if size += len(record.Result) + len(","); size > listResourcesBytes {
			out.LeftOut = len(found) - i
			break
		}
		out.Resources = append(out.Resources, r)
	}
	return tool.Success(out), nil
}

package session

import (
	"context"
	_ "embed" // the text that the model reads
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// ResourcesCapability is the capability of list_resources.
const ResourcesCapability = "session_resources"

const listResourcesName = "list_resources"

//go:embed list_resources.md
var listResourcesText string

// anyStatus selects entries with any status.
const anyStatus = "any"

// listResourcesBytes is the maximum size of the entries in a result, so that it is not cut (TL16).
const listResourcesBytes = tool.ResultLimit - 512

type listResourcesIn struct {
	Kind   string `json:"kind,omitempty" jsonschema:"Only entries of this kind, such as sandbox"`
	Status string `json:"status" enum:"active,completed,failed,released,any" default:"active" jsonschema:"Only entries with this status"`
}

type listResourcesOut struct {
	Resources []tool.Resource `json:"resources"`
	Omitted   int             `json:"left_out,omitempty" jsonschema:"The number of further entries: filter by kind or status to see them"`
}

// ListResources returns the tool that lists what runs beside the session (RS1).
func ListResources() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        listResourcesName,
		DisplayName: "List Resources",
		Narration:   tool.Narration{Started: "Listing the resources", Completed: "Listed the resources", Failed: "Could not list the resources"},
		Description: strings.TrimSpace(listResourcesText),
		Class:       perdure.Pure,
		SessionOnly: true,
		NeedsEnv:    true,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: ResourcesCapability},
	}, listResources)
}

func listResources(ctx context.Context, in listResourcesIn, env tool.Env) (tool.Result, error) {
	if env.Resources == nil {
		return tool.Missing("Session resource registry", listResourcesName+" requires it to list what runs beside the session."), nil
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
			out.Omitted = len(found) - i
			break
		}
		out.Resources = append(out.Resources, r)
	}
	return tool.Success(out), nil
}

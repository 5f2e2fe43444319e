package mcptool

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// handleKind is the kind of the resource entries that store handles.
const handleKind = "mcp_task"

// InResources stores handles as resources of the session: they are deleted with it, and
// list_resources shows them.
func InResources(of func(call tool.Call) tool.Resources) Handles { return resourceHandles{of} }

type resourceHandles struct {
	of func(call tool.Call) tool.Resources
}

func entryOf(call tool.Call) string { return "mcp:" + string(call.ID) }

func (h resourceHandles) Store(ctx context.Context, call tool.Call, kept Handle) error {
	name := kept.Tool
	if kept.Server != "" {
		name = kept.Server + " " + name
	}
	_, err := h.of(call).Register(ctx, tool.Resource{ID: entryOf(call), Kind: handleKind, Name: name, Metadata: mustJSON(kept), Task: call.Task})
	return err
}

func (h resourceHandles) Stored(ctx context.Context, call tool.Call) (kept Handle, found bool, err error) {
	entry, err := h.of(call).Resource(ctx, entryOf(call))
	if errors.Is(err, perdure.NotFound) {
		return kept, false, nil
	}
	if err == nil {
		err = perdure.DecodeJSON(entry.Metadata, &kept)
	}
	return kept, err == nil, err
}

func (h resourceHandles) End(ctx context.Context, call tool.Call) error {
	_, err := h.of(call).UpdateStatus(ctx, entryOf(call), tool.ResourceCompleted)
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	return err
}

func (h resourceHandles) Forget(ctx context.Context, call tool.Call) error {
	_, err := h.of(call).Deregister(ctx, entryOf(call))
	return err
}

// handleOf returns the handle of a task that a call has just become.
func (t *Remote) handleOf(created remoteTask) Handle {
	return Handle{Server: t.server, Tool: t.def.Name, TaskID: created.TaskID, PollInterval: created.Every}
}

// createdTask returns the task that the server created for a call.
func createdTask(r *mcp.CallToolResult) (created remoteTask, err error) {
	err = perdure.DecodeKnownJSON(mustJSON(r.Meta[metaCreated]), &created)
	if err != nil || !isValidTaskID(created.TaskID) {
		err = errors.New("the server created a task with an unusable id")
	}
	return created, err
}

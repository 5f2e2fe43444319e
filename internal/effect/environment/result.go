package environment

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// FullRecord converts a result to its record. Internal errors are logged: nobody else may read
// them.
func (en *Environment) FullRecord(row perdure.Call, r tool.Result) perdure.ToolResult {
	record, err := r.Record(row.Key.Call)
	if err != nil {
		en.core.Log.Error("internal tool error", "tool", row.Tool, "session", row.Key.Session, "call", row.Key.Call,
			"error", tool.Chain(err))
	}
	return en.StoreImages(row.Key, tool.CheckImages(record))
}

// StoreImages stores the images of a result with its session, each content once, and replaces their
// bytes by their ids: the journal and the ledger must not repeat them. An image that cannot be
// stored keeps its bytes.
func (en *Environment) StoreImages(key perdure.CallKey, record perdure.ToolResult) perdure.ToolResult {
	if len(record.Images) == 0 || en.core.Ports.Open == nil {
		return record
	}
	images, ok := en.core.Ports.Open(key.Session, tool.Call{Session: key.Session, ID: key.Call}).Images.(tool.ImageManager)
	if !ok {
		return record
	}
	ctx, cancel := core.SettleContext(context.Background())
	defer cancel()
	stored := slices.Clone(record.Images)
	err := en.core.Guarded("store images", func() error {
		for i, image := range stored {
			content, err := base64.StdEncoding.DecodeString(image.Base64)
			if image.ID != "" || err != nil {
				continue
			}
			put, err := images.CreateOnce(ctx, tool.ImageWrite{Data: content})
			if err != nil {
				return err
			}
			stored[i] = perdure.Image{ID: put.ID, MediaType: put.ContentType}
		}
		return nil
	})
	if err != nil {
		en.core.Log.Warn("an image of a result stays in the journal", "session", key.Session, "call", key.Call,
			"error", err)
	}
	record.Images = stored
	return record
}

// Narration returns the sentence that describes an ended call to people; empty if its tool has none
// of its own. Secrets are masked in the arguments and in full, the record before it is truncated;
// reveals says that it shows a secret on purpose, so the sentence must not depend on it.
func (en *Environment) Narration(call tool.Call, full perdure.ToolResult, reveals bool) string {
	t, ok := en.toolset.Find(call.Tool)
	if !ok {
		return ""
	}
	if reveals {
		full.Result, full.Metadata = nil, nil
	}
	return tool.EndSentence(t, call, full, cmp.Or(call.Caller().Locale, "en"))
}

// TruncateResult truncates a result to what a model reads. What is cut off, and the raw output, are
// first written to files of the session. The writes are fenced by the call that the result belongs
// to; a nil fence means that a client sent the result.
func (en *Environment) TruncateResult(key perdure.CallKey, record perdure.ToolResult,
	fence func(store.Reader) error) perdure.ToolResult {
	write := func(path, full string) string {
		content := []byte(full[:min(len(full), tool.RawOutputLimit)])
		if err := en.WriteFenced(tool.Call{Session: key.Session, ID: key.Call},
			tool.FileWrite{Path: path, Content: content}, fence); err != nil {
			en.core.Log.Error("full output not stored", "session", key.Session, "call", key.Call, "path", path,
				"error", err)
			return ""
		}
		return path
	}
	var stored tool.StoredOutput
	result := tool.OutputPath(key.Call)
	if record.RawOutput != nil {
		stored.RawPath, result = write(result, *record.RawOutput), tool.ResultPath(key.Call)
	}
	if len(record.Result) > en.core.Limits.ResultBytes {
		stored.Path = write(result, string(record.Result))
	}
	return stored.Cut(record, en.core.Limits.ResultBytes)
}

// ForceOf returns the function that ends the work of a call without a grace period, if its tool can
// do that. The function does nothing once another worker may own the call: its process has the same
// key.
func (en *Environment) ForceOf(t tool.Tool, call tool.Call) func() {
	return func() {
		forcer, ok := t.(tool.Forcer)
		if !ok || !en.core.LeaseHeld() {
			return
		}
		if err := en.core.Guarded("force", func() error { return forcer.Force(context.Background(), call) }); err != nil {
			en.core.Log.Error("work not ended by force", "session", call.Session, "call", call.ID, "error", tool.Chain(err))
		}
	}
}

// StopRemains stops what is left of an execution whose engine has died. A tool that cannot be
// forced has its grace period.
func (en *Environment) StopRemains(ctx context.Context, t tool.Tool, call tool.Call, force bool) error {
	if forcer, ok := t.(tool.Forcer); ok && force {
		return en.core.Guarded("force", func() error { return forcer.Force(ctx, call) })
	}
	if survivor, ok := t.(tool.Adoptable); ok {
		return en.core.Guarded("stop", func() error { return survivor.Stop(ctx, call) })
	}
	return nil
}

// Inspect finds out what is left of an execution. If the tool cannot tell, nothing is assumed and
// the call is treated as at_most_once, so it is not run again. A tool is not asked about remains at
// another home, which found says already.
func (en *Environment) Inspect(ctx context.Context, found perdure.OrphanedCall, t tool.Tool, call tool.Call) perdure.OrphanedCall {
	_, found.Reconcile = t.(tool.Reconciler)
	found.PastDeadline = !call.Deadline.IsZero() && time.Now().After(call.Deadline)
	survivor, ok := t.(tool.Adoptable)
	if !ok || found.Remains != perdure.RemainsNone {
		return found
	}
	err := en.core.Guarded("look", func() (err error) {
		found.Remains, err = survivor.Inspect(ctx, call)
		return err
	})
	if err != nil {
		en.core.Log.Error("remains of an execution not found out", "session", call.Session, "call", call.ID,
			"error", tool.Chain(err))
		found.Remains, found.Class = perdure.RemainsNone, perdure.AtMostOnce
	}
	return found
}

package enginerig

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Config returns the configuration of an engine over a store for a setup. Unless the setup says
// otherwise, the worker's heartbeats are so rare that no test sees one.
func Config(s enginetest.Setup, st store.Store, m model.Model, tools *tool.Registry) local.Config {
	cfg := local.Config{
		Store: st, Model: m, Tools: tools,
		Limits:  local.Limits{SlotsPerSession: s.PerSession, MaxExecutions: s.MaxRuns, DetachedPerSession: s.PerSessionDetached, EvictCap: s.EvictCap, SubagentsLive: s.SubagentsLive, DeferAbove: -1},
		Timing:  local.Timing{Grace: s.Grace, SoftBudget: s.SoftBudget, ApprovalExpiry: s.ApprovalExpiry, Drain: -1},
		Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour},
	}
	if s.Beat > 0 {
		cfg.Workers.Beat = s.Beat
	}
	switch {
	case s.Reject:
		cfg.Limits.Overflow = local.OverflowReject
	case s.Evict:
		cfg.Limits.Overflow = local.OverflowEvict
	}
	cfg.Limits.CheckpointBytes = s.Checkpoint
	if s.Guard != "" {
		cfg.Policies.Guards = []local.Guard{{Name: "word", Check: func(text string) (string, bool) {
			return "[withheld]", strings.Contains(text, s.Guard)
		}}}
	}
	cfg.Billing.Prices = s.Prices
	if s.Webhooks != "" {
		withWebhooks(&cfg, s.Webhooks)
	}
	h := host(s)
	cfg.Policies.Route, cfg.Policies.Permit = h.route, h.permit
	if s.Hook != "" {
		cfg.Policies.Hooks = []tool.Hook{h}
	}
	return cfg
}

// host implements the host's policies and hook for a setup.
type host enginetest.Setup

// route sends the named tools to the background.
func (h host) route(call tool.Call) dispatch.Route {
	if slices.Contains(h.Background, call.Tool) {
		return dispatch.InBackground()
	}
	return dispatch.Route{}
}

// permit asks about the targets in Ask, denies those in Deny, and panics for those in Panics.
func (h host) permit(_ context.Context, _ tool.Call, p perdure.Permission) (perdure.Decision, string, error) {
	switch {
	case slices.Contains(h.Panics, p.Target):
		panic("secret cause")
	case slices.Contains(h.Deny, p.Target):
		return perdure.Deny, "not " + p.Target, nil
	case slices.Contains(h.Ask, p.Target):
		return perdure.Ask, "look at " + p.Target, nil
	}
	return perdure.Undecided, "", nil
}

func (h host) BeforeTool(_ context.Context, call tool.Call) (said tool.Before, err error) {
	switch h.Hook {
	case "rewrite":
		said.Args = json.RawMessage(`{"text":"rewritten"}`)
	case "restless":
		var in textArgs
		err = perdure.DecodeJSON(call.Args, &in)
		said.Args = json.RawMessage(`{"text":"` + in.Text + `x"}`)
	case "block":
		said.Block = "no such thing today"
	case "defer":
		said.Permissions = []perdure.Permission{{Kind: "hook", Target: "deferred"}}
	}
	if len(call.Args) == 0 || call.Tool == "spawn_background" { // the hook sees its target separately
		return tool.Before{}, err
	}
	return said, err
}

func (h host) AfterTool(_ context.Context, call tool.Call, _ tool.Result) (said tool.After, err error) {
	if call.Tool == "spawn_background" {
		return said, nil
	}
	switch h.Hook {
	case "replace":
		r := tool.Success(answer{"said": "something else"})
		said.Result = &r
	case "withhold":
		said.WithholdLog = true
	}
	return said, nil
}

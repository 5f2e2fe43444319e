package core

import (
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/config"
)

// TestAgentLimitsOnlyTighten: an agent lowers the limits of the engine and raises none, also where
// the engine has no limit.
func TestAgentLimitsOnlyTighten(t *testing.T) {
	t.Parallel()
	engine := config.Limits{SlotsPerSession: 5, DetachedPerSession: 0, QueueLength: 8, SubagentDepth: 2, SubagentsLive: 4,
		SubagentsTotal: 9}
	c := &Core{Config: Config{Limits: engine, Timing: config.Timing{ApprovalExpiry: time.Hour}}}
	for _, of := range []struct {
		agent perdure.AgentLimits
		want  config.Limits
	}{
		{perdure.AgentLimits{}, engine},
		{perdure.AgentLimits{SlotsPerSession: 50, QueueLength: 80, SubagentDepth: 20, SubagentsLive: 40, SubagentsTotal: 90}, engine},
		{perdure.AgentLimits{SlotsPerSession: 1, DetachedPerSession: 3, QueueLength: 2, SubagentDepth: 1, SubagentsLive: 1,
			SubagentsTotal: 5}, config.Limits{SlotsPerSession: 1, DetachedPerSession: 3, QueueLength: 2, SubagentDepth: 1,
			SubagentsLive: 1, SubagentsTotal: 5}},
	} {
		if got := c.LimitsFor(perdure.Agent{Limits: of.agent}); got != of.want {
			t.Errorf("%+v: got %+v, want %+v", of.agent, got, of.want)
		}
	}
	c.Limits.SubagentDepth = 0 // no subagents
	if got := c.LimitsFor(perdure.Agent{Limits: perdure.AgentLimits{SubagentDepth: 3}}).SubagentDepth; got != 0 {
		t.Errorf("an agent allows subagents to depth %d", got)
	}
	for ms, want := range map[int64]time.Duration{0: time.Hour, 1000: time.Second, 7_200_000: time.Hour} {
		if got := c.ApprovalExpiry(perdure.Agent{Limits: perdure.AgentLimits{ApprovalExpiryMS: ms}}); got != want {
			t.Errorf("%d ms: approvals expire after %v, want %v", ms, got, want)
		}
	}
}

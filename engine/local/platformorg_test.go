package local_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/tool"
)

// administer is a tool that hands its platform out.
func administer(name string, port chan<- tool.Platform) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "x", Class: perdure.Pure}, func(_ context.Context, _ struct{}, env tool.Env) (string, error) {
		port <- env.Platform
		return "done", nil
	})
}

// TestPlatformOfAnOrg: a tool that the host names has the platform for the org of its session. What
// belongs to another org does not exist, and agents are only read.
func TestPlatformOfAnOrg(t *testing.T) {
	t.Parallel()
	opened, closed := make(chan tool.Platform, 1), make(chan tool.Platform, 1)
	s := openShop(t, `
rules:
  - when: {user_contains: go, not_called: manage}
    calls: [{name: manage, args: {}}, {name: plain, args: {}}]
steps: [{text: ok, repeat: true}]
`, local.Config{Ports: local.Ports{Platform: func(call tool.Call) bool { return call.Tool == "manage" }}},
		administer("manage", opened), administer("plain", closed))
	s.run()
	defer s.over()
	kept, err := s.eng.Agents().Put(s.ctx, engine.AgentWrite{Name: "reader", Overlay: agent.Overlay{SystemPrompt: "Read."}})
	if err != nil {
		t.Fatal(err)
	}
	ports := map[string]tool.Platform{}
	ids := map[string]perdure.SessionID{}
	for _, org := range []string{"", "blue", "red"} {
		ctx := s.ctx
		if org != "" {
			ctx = engine.WithOwner(ctx, engine.Owner{Org: org, User: "ann"})
		}
		session, err := s.eng.Sessions().Create(ctx, perdure.Agent{Title: "of " + org})
		if err != nil {
			t.Fatal(err)
		}
		s.id, ids[org] = session.ID, session.ID
		s.say("go")
		s.rest()
		ports[org] = <-opened
		if other := <-closed; other != nil || ports[org] == nil {
			t.Fatalf("org %q: the tool that is named has %v, the other one %v", org, ports[org], other)
		}
	}

	for org, p := range ports {
		o := orgPort{s, org, p}
		o.checkSessions(ids)
		o.checkDirectory(perdure.AgentID(kept.ID))
		o.checkCreation(perdure.AgentID(kept.ID))
	}
}

// orgPort is the platform for an org.
type orgPort struct {
	*shop
	org  string
	port tool.Platform
}

// checkSessions: the org has its own session only.
func (o orgPort) checkSessions(ids map[string]perdure.SessionID) {
	t, p, org := o.t, o.port, o.org
	list, err := p.Sessions(o.ctx, 0)
	if err != nil || len(list) != 1 || list[0].ID != ids[org] {
		t.Errorf("org %q lists %+v, %v", org, list, err)
	}
	for other, id := range ids {
		own := other == org
		_, found, err := p.Session(o.ctx, id)
		if found != own || err != nil {
			t.Errorf("org %q finds the session of %q: %t, %v", org, other, found, err)
		}
		page, err := p.Messages(o.ctx, id, 0, 0)
		if (len(page.Messages) > 0) != own || err != nil {
			t.Errorf("org %q reads %d messages of %q, %v", org, len(page.Messages), other, err)
		}
		if own {
			continue
		}
		_, sent := p.Send(o.ctx, id, "hello")
		_, waited := p.WaitIdle(o.ctx, id, time.Second)
		_, measured := p.ContextOf(o.ctx, id)
		_, created := p.CreateSession(o.ctx, tool.SessionRequest{ID: id})
		for what, err := range map[string]error{"send": sent, "wait": waited, "context": measured, "delete": p.DeleteSession(o.ctx, id)} {
			if !errors.Is(err, perdure.NotFound) {
				t.Errorf("org %q: %s in %q: %v", org, what, other, err)
			}
		}
		if !errors.Is(created, perdure.Conflict) {
			t.Errorf("org %q creates the session of %q: %v", org, other, created)
		}
	}
}

// checkDirectory: the default org reads agents, no org writes them.
func (o orgPort) checkDirectory(kept perdure.AgentID) {
	t, p, org := o.t, o.port, o.org
	agents, err := p.Agents(o.ctx, agent.StatusFilter{})
	_, found, failed := p.Agent(o.ctx, kept)
	if (len(agents) == 1) != (org == "") || found != (org == "") || err != nil || failed != nil {
		t.Errorf("org %q: %d agents, found %t; %v, %v", org, len(agents), found, err, failed)
	}
	_, added := p.CreateAgent(o.ctx, agent.Agent{Name: "new"})
	_, changed := p.UpdateAgent(o.ctx, agent.Agent{ID: kept, Name: "reader", Version: 1})
	_, copied := p.CopyHarness(o.ctx, "harness_1", "x")
	for what, err := range map[string]error{"create": added, "update": changed, "copy": copied, "delete": p.DeleteAgent(o.ctx, kept)} {
		if !errors.Is(err, perdure.Denied) {
			t.Errorf("org %q: %s: %v", org, what, err)
		}
	}
}

// checkCreation: a session that the org starts is its own; only the default org has the agent.
func (o orgPort) checkCreation(kept perdure.AgentID) {
	t, p, org := o.t, o.port, o.org
	_, err := p.CreateSession(o.ctx, tool.SessionRequest{Agent: kept, Title: "made"})
	if (err == nil) != (org == "") || err != nil && !errors.Is(err, perdure.NotFound) {
		t.Errorf("org %q starts a session of the agent: %v", org, err)
	}
	if org == "" {
		return
	}
	made, err := p.CreateSession(o.ctx, tool.SessionRequest{Title: "made"})
	if err != nil {
		t.Fatal(err)
	}
	session, err := o.eng.Sessions().Get(o.ctx, made.ID)
	if err != nil || session.Org != org || session.User != "ann" {
		t.Errorf("org %q made a session of %q, %q: %v", org, session.Org, session.User, err)
	}
}

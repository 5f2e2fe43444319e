package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/tool"
)

// openPlatform adds the platform to the ports of the calls that the configuration names.
func (e *Host) openPlatform() error {
	opened, ports := e.cfg.Ports.Platform, e.cfg.Ports.Open
	if opened == nil {
		return nil
	}
	whole, err := e.Platform("")
	if err != nil {
		return err
	}
	e.cfg.Ports.Platform = nil // done
	e.cfg.Ports.Open = func(session perdure.SessionID, call tool.Call) tool.Ports {
		own := ports(session, call)
		if call.ID != "" && opened(call) {
			own.Platform = orgPlatform{Platform: whole, e: e, owner: engine.Owner{Org: call.Org, User: call.User}}
		}
		return own
	}
	return nil
}

// orgPlatform is the platform for the sessions of one owner. It has the sessions of the owner's
// org; all others do not exist for it. It cannot write agents and harnesses, because that decides
// what agents may do, which only an administrator does. Only the default org has agents and
// harnesses to read.
type orgPlatform struct {
	tool.Platform // of the whole engine
	e             *Host
	owner         engine.Owner
}

// org returns the org of the owner.
func (p orgPlatform) org() string { return cmp.Or(p.owner.Org, budget.DefaultOrg) }

// isDefault reports whether the owner's org has the directory.
func (p orgPlatform) isDefault() bool { return p.org() == budget.DefaultOrg }

// as returns a context in which the engine works for the owner.
func (p orgPlatform) as(ctx context.Context) context.Context { return engine.WithOwner(ctx, p.owner) }

// check returns NotFound if a session does not belong to the org.
func (p orgPlatform) check(ctx context.Context, id perdure.SessionID) error {
	s, err := p.e.Sessions().Get(ctx, id)
	if err == nil && cmp.Or(s.Org, budget.DefaultOrg) != p.org() {
		err = fmt.Errorf("session %.80q: %w", string(id), perdure.NotFound)
	}
	return err
}

// exists is check for reads, which return nothing for an unknown session.
func (p orgPlatform) exists(ctx context.Context, id perdure.SessionID) (bool, error) {
	err := p.check(ctx, id)
	if errors.Is(err, perdure.NotFound) {
		return false, nil
	}
	return err == nil, err
}

func (p orgPlatform) Sessions(ctx context.Context, limit int) ([]tool.PlatformSession, error) {
	return p.Platform.Sessions(p.as(ctx), limit)
}

func (p orgPlatform) Session(ctx context.Context, id perdure.SessionID) (s tool.PlatformSession, found bool, err error) {
	if found, err = p.exists(ctx, id); !found {
		return s, false, err
	}
	return p.Platform.Session(ctx, id)
}

func (p orgPlatform) CreateSession(ctx context.Context, o tool.SessionRequest) (s tool.PlatformSession, err error) {
	switch {
	case !p.isDefault() && o.Agent != "":
		return s, fmt.Errorf("agent %.80q: %w", string(o.Agent), perdure.NotFound)
	case !p.isDefault() && o.Harness != "":
		return s, fmt.Errorf("harness %.80q: %w", string(o.Harness), perdure.NotFound)
	}
	if s, err = p.Platform.CreateSession(p.as(ctx), o); err != nil {
		return tool.PlatformSession{}, err
	}
	if other := p.check(ctx, s.ID); other != nil { // the same order of another org, under the same id
		return tool.PlatformSession{}, fmt.Errorf("%w: session %.80q already exists", perdure.Conflict, string(o.ID))
	}
	return s, nil
}

func (p orgPlatform) DeleteSession(ctx context.Context, id perdure.SessionID) error {
	if err := p.check(ctx, id); err != nil {
		return err
	}
	return p.Platform.DeleteSession(ctx, id)
}

func (p orgPlatform) Send(ctx context.Context, id perdure.SessionID, text string) (perdure.MessageID, error) {
	if err := p.check(ctx, id); err != nil {
		return "", err
	}
	return p.Platform.Send(ctx, id, text)
}

func (p orgPlatform) Messages(ctx context.Context, id perdure.SessionID, after int64, limit int) (tool.MessagePage, error) {
	if there, err := p.exists(ctx, id); !there {
		return tool.MessagePage{}, err
	}
	return p.Platform.Messages(ctx, id, after, limit)
}

func (p orgPlatform) WaitIdle(ctx context.Context, id perdure.SessionID, limit time.Duration) (tool.WaitOutcome, error) {
	if err := p.check(ctx, id); err != nil {
		return "", err
	}
	return p.Platform.WaitIdle(ctx, id, limit)
}

func (p orgPlatform) ContextOf(ctx context.Context, id perdure.SessionID) (tool.ContextReport, error) {
	if err := p.check(ctx, id); err != nil {
		return tool.ContextReport{}, err
	}
	return p.Platform.ContextOf(ctx, id)
}

func (p orgPlatform) Agents(ctx context.Context, filter agent.StatusFilter) ([]agent.Agent, error) {
	if !p.isDefault() {
		return nil, nil
	}
	return p.Platform.Agents(ctx, filter)
}

func (p orgPlatform) Agent(ctx context.Context, id perdure.AgentID) (a agent.Agent, found bool, err error) {
	if !p.isDefault() {
		return a, false, nil
	}
	return p.Platform.Agent(ctx, id)
}

func (p orgPlatform) Harnesses(ctx context.Context, filter agent.StatusFilter) ([]agent.Harness, error) {
	if !p.isDefault() {
		return nil, nil
	}
	return p.Platform.Harnesses(ctx, filter)
}

func (p orgPlatform) Harness(ctx context.Context, id perdure.HarnessID) (h agent.Harness, found bool, err error) {
	if !p.isDefault() {
		return h, false, nil
	}
	return p.Platform.Harness(ctx, id)
}

// errAdministrator is the error of every write to the directory.
var errAdministrator = fmt.Errorf("%w: a tool cannot change agents and harnesses; an administrator does, with perdure agent apply or over HTTP", perdure.Denied)

func (p orgPlatform) CreateAgent(context.Context, agent.Agent) (agent.Agent, error) {
	return agent.Agent{}, errAdministrator
}

func (p orgPlatform) UpdateAgent(context.Context, agent.Agent) (agent.Agent, error) {
	return agent.Agent{}, errAdministrator
}

func (p orgPlatform) DeleteAgent(context.Context, perdure.AgentID) error { return errAdministrator }

func (p orgPlatform) CreateHarness(context.Context, agent.Harness) (agent.Harness, error) {
	return agent.Harness{}, errAdministrator
}

func (p orgPlatform) UpdateHarness(context.Context, agent.Harness) (agent.Harness, error) {
	return agent.Harness{}, errAdministrator
}

func (p orgPlatform) DeleteHarness(context.Context, perdure.HarnessID) error { return errAdministrator }

func (p orgPlatform) CopyHarness(context.Context, perdure.HarnessID, string) (agent.Harness, error) {
	return agent.Harness{}, errAdministrator
}

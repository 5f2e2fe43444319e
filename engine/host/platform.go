package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Platform returns the port that lets tools administer this engine (PL1). A tool with this port may
// do everything that it offers, so the host gives it only to tools that it trusts. baseURL is the
// address of the runtime for people; empty: none.
func (e *Host) Platform(baseURL string) (tool.Platform, error) {
	ports := sessionport.New(sessionport.Config{Store: e.cfg.Store, NextRequest: e.nextModelRequest})
	return sessionport.NewPlatform(sessionport.PlatformConfig{
		Store: e.cfg.Store, Engine: platform{e, ports}, Tools: e.cfg.Tools, Capabilities: e.cfg.Catalogue.Capabilities,
		Blueprints: e.cfg.Catalogue.Blueprints, BaseURL: baseURL,
	})
}

// platform adapts the engine to sessionport.Engine.
type platform struct {
	e *Host
	// ports are the store's own ports, even if the host configures others for tools
	ports func(perdure.SessionID, tool.Call) tool.Ports
}

var _ sessionport.Engine = platform{}

// Sessions lists sessions, newest first.
func (p platform) Sessions(ctx context.Context, limit int) ([]tool.PlatformSession, error) {
	found, err := p.e.Sessions().List(ctx, limit)
	if err != nil {
		return nil, err
	}
	list := []tool.PlatformSession{}
	for _, s := range found {
		shown, err := p.show(ctx, s)
		if errors.Is(err, perdure.NotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, shown)
	}
	return list, nil
}

func (p platform) Session(ctx context.Context, id perdure.SessionID) (s tool.PlatformSession, found bool, err error) {
	known, err := p.e.Sessions().Get(ctx, id)
	if err == nil {
		s, err = p.show(ctx, known)
	}
	if errors.Is(err, perdure.NotFound) {
		return s, false, nil
	}
	return s, err == nil, err
}

// show adds the agent and harness that a session was created from.
func (p platform) show(ctx context.Context, s engine.Session) (tool.PlatformSession, error) {
	shown := tool.PlatformSession{
		ID: s.ID, Title: s.Title, Status: s.Status, Parent: s.Parent, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	first, err := p.e.Events(ctx, s.ID, 0, 1)
	if err == nil && len(first) > 0 {
		created, _ := first[0].Fact.(perdure.SessionCreated)
		shown.Agent, shown.Harness = created.Agent.ID, created.Agent.Harness
	}
	return shown, err
}

func (p platform) CreateSession(ctx context.Context, o tool.SessionRequest) (tool.PlatformSession, error) {
	s, err := p.e.StartAgent(ctx, o)
	if err != nil {
		return tool.PlatformSession{}, err
	}
	return p.show(ctx, s)
}

func (p platform) DeleteSession(ctx context.Context, id perdure.SessionID) error {
	return p.e.Sessions().Delete(ctx, id)
}

func (p platform) Send(ctx context.Context, id perdure.SessionID, text string) (perdure.MessageID, error) {
	sent, err := p.e.Send(ctx, id, perdure.Text(text))
	return sent.ID, err
}

func (p platform) Messages(
	ctx context.Context, id perdure.SessionID, after int64, limit int,
) (tool.MessagePage, error) {
	page, err := p.ports(id, tool.Call{}).Messages.Messages(ctx, after, limit)
	if errors.Is(err, perdure.NotFound) {
		return tool.MessagePage{}, nil
	}
	return page, err
}

func (p platform) ContextOf(ctx context.Context, id perdure.SessionID) (tool.ContextReport, error) {
	return p.ports(id, tool.Call{}).Session.Context(ctx)
}

// maxPlatformWait limits a wait for a session. Half of the idle timeout limits it too.
const maxPlatformWait = 540 * time.Second

// WaitIdle returns when the session is idle, or after most.
func (p platform) WaitIdle(ctx context.Context, id perdure.SessionID, most time.Duration) (tool.WaitOutcome, error) {
	most = min(most, maxPlatformWait)
	if idle := p.e.cfg.Timing.Idle; idle > 0 {
		most = min(most, idle/2)
	}
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := p.e.Sessions().WaitIdle(waiting, id)
	switch {
	case err != nil && ctx.Err() == nil && waiting.Err() != nil:
		return tool.WaitTimeout, nil
	case err != nil:
		return "", err
	}
	failed, err := p.failed(ctx, id)
	if err != nil {
		return "", err
	}
	if failed {
		return tool.WaitError, nil
	}
	return tool.WaitIdle, nil
}

// lookBack is the number of events per read, in the search for the end of the last turn.
const lookBack = 100

// failed reports whether a session's last turn failed.
func (p platform) failed(ctx context.Context, id perdure.SessionID) (failed bool, err error) {
	err = p.e.view(ctx, func(r store.Reader) error {
		row, err := r.Sessions().Get(id)
		if err != nil {
			return err
		}
		for end := row.LastSeq; end > 0; end -= lookBack {
			events, err := r.Journal().Events(id, max(end-lookBack, 0), int(min(end, lookBack)))
			if err != nil {
				return err
			}
			for _, event := range slices.Backward(events) {
				switch event.Fact.(type) {
				case perdure.TurnFailed:
					failed = true
					return nil
				case perdure.TurnCompleted, perdure.TurnCanceled, perdure.TurnSealed:
					return nil
				}
			}
		}
		return nil
	})
	return failed, err
}

package local

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Platform returns the port by which tools administer this engine (PL1). Whoever has it may do all that it offers: the host
// puts it among the ports of whom it trusts. baseURL is where people reach the runtime; empty: nowhere.
func (e *Engine) Platform(baseURL string) (tool.Platform, error) {
	ports := sessionport.New(sessionport.Config{Store: e.cfg.Store, Asked: e.asked})
	return sessionport.NewPlatform(sessionport.PlatformConfig{
		Store: e.cfg.Store, Engine: platform{e, ports}, Tools: e.cfg.Tools, Capabilities: e.cfg.Capabilities, Blueprints: e.cfg.Blueprints, BaseURL: baseURL,
	})
}

// platform is the engine's sessions, as the port Platform shows them.
type platform struct {
	e     *Engine
	ports func(perdure.SessionID, tool.Call) tool.Ports // the store's own, whatever the host gives to tools
}

var _ sessionport.Engine = platform{}

// Sessions lists sessions, newest first.
func (p platform) Sessions(ctx context.Context, limit int) ([]tool.PlatformSession, error) {
	found, err := p.e.Sessions(ctx, limit)
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

// Session returns a session.
func (p platform) Session(ctx context.Context, id perdure.SessionID) (s tool.PlatformSession, found bool, err error) {
	known, err := p.e.Session(ctx, id)
	if err == nil {
		s, err = p.show(ctx, known)
	}
	if errors.Is(err, perdure.NotFound) {
		return s, false, nil
	}
	return s, err == nil, err
}

// show adds to a session what it was made of.
func (p platform) show(ctx context.Context, s engine.Session) (tool.PlatformSession, error) {
	shown := tool.PlatformSession{ID: s.ID, Title: s.Title, Status: s.Status, Parent: s.Parent, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt}
	first, err := p.e.Events(ctx, s.ID, 0, 1)
	if err == nil && len(first) > 0 {
		created, _ := first[0].Fact.(perdure.SessionCreated)
		shown.Agent, shown.Harness = created.Agent.ID, created.Agent.Harness
	}
	return shown, err
}

// CreateSession starts a session.
func (p platform) CreateSession(ctx context.Context, o tool.SessionOrder) (tool.PlatformSession, error) {
	s, err := p.e.StartAgent(ctx, o)
	if err != nil {
		return tool.PlatformSession{}, err
	}
	return p.show(ctx, s)
}

// DeleteSession removes a session for good.
func (p platform) DeleteSession(ctx context.Context, id perdure.SessionID) error {
	return p.e.DeleteSession(ctx, id)
}

// Send hands a message to a session.
func (p platform) Send(ctx context.Context, id perdure.SessionID, text string) (perdure.MessageID, error) {
	m := perdure.Message{ID: effect.NewMessageID(), Role: perdure.RoleUser, Parts: []perdure.Part{{Type: perdure.PartText, Text: text}}}
	return m.ID, p.e.Send(ctx, id, m)
}

// Messages returns a page of a transcript.
func (p platform) Messages(ctx context.Context, id perdure.SessionID, after int64, limit int) (tool.MessagePage, error) {
	page, err := p.ports(id, tool.Call{}).Messages.Messages(ctx, after, limit)
	if errors.Is(err, perdure.NotFound) {
		return tool.MessagePage{}, nil
	}
	return page, err
}

// ContextOf says what fills a context window.
func (p platform) ContextOf(ctx context.Context, id perdure.SessionID) (tool.ContextReport, error) {
	return p.ports(id, tool.Call{}).Session.Context(ctx)
}

// longestPlatformWait bounds a wait for a session, which half of the idle limit bounds, too.
const longestPlatformWait = 540 * time.Second

// WaitIdle returns when the session is at rest, or after a time.
func (p platform) WaitIdle(ctx context.Context, id perdure.SessionID, most time.Duration) (tool.Rest, error) {
	most = min(most, longestPlatformWait)
	if idle := p.e.cfg.IdleTimeout; idle > 0 {
		most = min(most, idle/2)
	}
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := p.e.WaitIdle(waiting, id)
	switch {
	case err != nil && ctx.Err() == nil && waiting.Err() != nil:
		return tool.RestTimeout, nil
	case err != nil:
		return "", err
	}
	failed, err := p.failed(ctx, id)
	if err != nil {
		return "", err
	}
	if failed {
		return tool.RestError, nil
	}
	return tool.RestIdle, nil
}

// lookBack is how many events are read at once to find the end of the last turn.
const lookBack = 100

// failed reports whether a session's last turn failed.
func (p platform) failed(ctx context.Context, id perdure.SessionID) (failed bool, err error) {
	return failed, p.e.view(ctx, func(r store.Reader) error {
		row, err := r.Session(id)
		if err != nil {
			return err
		}
		for end := row.LastSeq; end > 0; end -= lookBack {
			events, err := r.Events(id, max(end-lookBack, 0), int(min(end, lookBack)))
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
}

package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/perdure/perdure"
)

// eventState is the response of get-event.
type eventState struct {
	Event   perdure.Event          `json:"event"`
	Before  perdure.SessionOutline `json:"before"`
	After   perdure.SessionOutline `json:"after"`
	Changes []perdure.StateChange  `json:"changes" doc:"What the event changed, in a fixed order. Empty: nothing that a state shows."`
}

func (a eventHandlers) registerState() {
	read(a.API, operation{
		id: "get-event", path: "/v1/sessions/{id}/events/{seq}", policy: reads, summary: "Show an event, and the state of the session before and after it",
		errors: []int{http.StatusNotFound},
	}, a.event)
}

// event folds the journal up to an event. It repeats no effect and changes nothing.
func (a eventHandlers) event(ctx context.Context, in *struct {
	OfSession
	Seq int64 `path:"seq" minimum:"1" example:"1" doc:"The seq of the event."`
}) (*single[eventState], error) {
	session, err := a.cfg.Engine.Sessions().Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Seq > session.LastSeq {
		return nil, fmt.Errorf("%w: the last event of session %s is %d", perdure.NotFound, in.ID, session.LastSeq)
	}
	at := perdure.NewSession(in.ID)
	var got eventState
	err = a.eachEvent(ctx, in.ID, section{to: in.Seq}, func(e perdure.Event) error {
		if e.Seq < in.Seq {
			return at.Apply(e)
		}
		before := at.Clone()
		if err := at.Apply(e); err != nil {
			return err
		}
		got = eventState{
			Event: disclose(e, requestOf(ctx).disclosure), Before: perdure.OutlineOf(before), After: perdure.OutlineOf(at),
			Changes: perdure.StateChanges(before, at),
		}
		return nil
	})
	if got.Changes == nil {
		got.Changes = []perdure.StateChange{}
	}
	return &single[eventState]{Body: got}, err
}

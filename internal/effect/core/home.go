package core

import (
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// AtAnotherHome is the error of work that only another home can continue now. It is of kind Lost.
var AtAnotherHome = fmt.Errorf("%w: it waits for its home", perdure.Lost)

// HomeOf returns the home at which an execution of a tool leaves its remains if it starts in this
// process. Empty: it leaves none, or none that are bound to a machine.
func (c *Core) HomeOf(t tool.Tool) perdure.HomeID {
	_, survives := t.(tool.Adoptable)
	if _, anywhere := t.(tool.AdoptableAnywhere); anywhere || !survives {
		return ""
	}
	return c.Home.ID
}

// RemainsAt says whether remains at a home can be judged here (RC23). RemainsNone: they can.
// RemainsElsewhere: their home may still judge them. RemainsUnseen: it did not come back in time.
//
// A home that has a live worker judges its remains itself, however long that takes.
func (c *Core) RemainsAt(r store.Reader, home perdure.HomeID) perdure.ExecutionRemains {
	if !c.Shared || home == "" || home == c.Home.ID {
		return perdure.RemainsNone
	}
	h, err := r.Workers().Home(home)
	switch {
	case errors.Is(err, perdure.NotFound):
		return perdure.RemainsUnseen
	case err != nil || h.Present || c.Home.Wait < 0 || r.Now().Before(h.SeenAt.Add(c.Home.Wait)):
		return perdure.RemainsElsewhere
	}
	return perdure.RemainsUnseen
}

// HomeName names a home for people.
func HomeName(r store.Reader, id perdure.HomeID) string {
	if h, err := r.Workers().Home(id); err == nil && h.Host != "" {
		return fmt.Sprintf("home %s on %s", id, h.Host)
	}
	return fmt.Sprintf("home %s", id)
}

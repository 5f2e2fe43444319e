package core

import (
	"errors"
	"fmt"
	"slices"

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

// HomeOfNew is the home of a new session of an agent; empty: it has none yet (RC25).
func (c *Core) HomeOfNew(a perdure.Agent) perdure.HomeID {
	if c.Home.HasFiles == nil || !c.Home.HasFiles(a) {
		return ""
	}
	return c.Home.Files
}

// FilesElsewhere reports whether the files of a session are at another home, so that no work of the
// session may start here (RC26).
func (c *Core) FilesElsewhere(s store.Session) bool {
	return c.Shared && !c.Home.FilesShared && s.Home != "" && s.Home != c.Home.ID
}

// CheckFiles refuses what needs the files of a session that are at another home. Conflict: the text
// names the home.
func (c *Core) CheckFiles(r store.Reader, s store.Session) error {
	if !c.FilesElsewhere(s) {
		return nil
	}
	return fmt.Errorf("%w: the files of %s are at %s; ask a server there, or move the session to this server",
		perdure.Conflict, s.ID, HomeName(r, s.Home))
}

// WorkElsewhere reports whether work of a session may start in another process only.
func (c *Core) WorkElsewhere(r store.Reader, session perdure.SessionID) (bool, error) {
	if !c.Shared {
		return false, nil
	}
	s, err := r.Sessions().Get(session)
	if errors.Is(err, perdure.NotFound) {
		return !c.Leads(), nil
	}
	return err == nil && (c.FilesElsewhere(s) || !c.Leads() && !c.bound(s)), err
}

// bound reports whether a session is worked on in this process, whichever process leads: it is
// already, or its files are at this home.
func (c *Core) bound(s store.Session) bool {
	return s.Worker == c.Worker || c.Home.ID != "" && !c.Home.FilesShared && s.Home == c.Home.ID
}

// MayDrive reports whether this process may drive a session. OwnedElsewhere: only the process that
// leads may. A session whose dead driver left calls with remains at this home is driven here.
func (c *Core) MayDrive(r store.Reader, s store.Session) error {
	if c.Leads() || c.bound(s) {
		return nil
	}
	calls, err := r.Calls().List(store.CallFilter{Session: s.ID, State: perdure.CallRunning})
	if err != nil {
		return err
	}
	if c.Home.ID != "" && slices.ContainsFunc(calls, func(call perdure.Call) bool { return call.Home == c.Home.ID }) {
		return nil
	}
	return OwnedElsewhere
}

// LeftoversAt says who removes leftovers at a home (RC29): this worker (here), or a worker of that
// home. lost: no worker of the home was seen for as long as ended tasks are kept, so what is there
// is given up.
func (c *Core) LeftoversAt(r store.Reader, home perdure.HomeID) (here, lost bool, err error) {
	if !c.Shared || home == "" || home == c.Home.ID {
		return true, false, nil
	}
	h, err := r.Workers().Home(home)
	if errors.Is(err, perdure.NotFound) {
		return false, true, nil
	}
	keep := c.Timing.Retention
	return false, err == nil && !h.Present && keep > 0 && r.Now().After(h.SeenAt.Add(keep)), err
}

// HomeName names a home for people.
func HomeName(r store.Reader, id perdure.HomeID) string {
	if h, err := r.Workers().Home(id); err == nil && h.Host != "" {
		return fmt.Sprintf("home %s on %s", id, h.Host)
	}
	return fmt.Sprintf("home %s", id)
}

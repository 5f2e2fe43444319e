package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// checkHomes lists the homes of a database that several servers share, and what waits for each. A
// store of one server has none.
func (a *app) checkHomes(ctx context.Context) (checks []Check) {
	ctx, stop := context.WithTimeout(ctx, serverTime)
	defer stop()
	var homes []engine.Home
	err := a.read(ctx, func(eng Engine) (err error) {
		homes, err = eng.Sessions().Homes(ctx)
		return err
	})
	switch {
	case a.flags.Database == "":
	case errors.Is(err, perdure.NotFound):
		return []Check{{Name: "homes", Health: HealthOK,
			Detail: "the database has no data yet: the first server creates it; if it should have some, check the name in its URL"}}
	case err != nil:
		return []Check{{Name: "homes", Health: HealthError, Detail: err.Error(),
			Fix: "check that the database is running, and that the URL in PERDURE_DATABASE is right"}}
	}
	for _, h := range homes {
		checks = append(checks, homeCheck(h, a.now()))
	}
	return checks
}

// homeCheck is the finding about one home.
func homeCheck(h engine.Home, now clock) Check {
	check := Check{Name: "home", Health: HealthOK, Detail: homeName(engine.SessionHome{ID: h.ID, Host: h.Host})}
	if h.Here {
		check.Detail += ", this one"
	}
	if h.Present {
		check.Detail += ": a server of it is running"
	} else {
		check.Detail += ": its last server was seen " + ago(h.SeenAt, now)
	}
	if h.WaitingSessions+h.WaitingTasks == 0 {
		return check
	}
	check.Detail += fmt.Sprintf("; %s and %s wait for it", count(h.WaitingSessions, "session"), count(h.WaitingTasks, "task"))
	if !h.Present {
		check.Health = HealthWarning
		check.Fix = "start a server with this data directory again; if it is lost, move each session to another server: " + program + " session move SESSION"
	}
	return check
}

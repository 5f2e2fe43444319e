package tooltest

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/tool"
)

// moment is a place in the life of a call at which the runtime dies.
type moment string

// The moments, in their order.
const (
	beforeClaim  moment = "before its claim"
	afterClaim   moment = "after its claim, before the tool was entered"
	during       moment = "while the tool ran"
	afterEffect  moment = "after the tool returned"
	beforeSettle moment = "before its settlement"
	afterSettle  moment = "after its settlement"
)

func moments() []moment {
	return []moment{beforeClaim, afterClaim, during, afterEffect, beforeSettle, afterSettle}
}

// fault is the plan of a moment. In the background the first claim and the first settlement are those of the call that
// asks for the run.
func (c *crash) fault(p faulty.Point) faulty.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	nth := 1
	if c.lane == perdure.Background {
		nth = 2
		if p == (faulty.Point{Method: "Settle", N: 1}) {
			close(c.settling)
		}
	}
	begins := p.Method == "InTx" || p.Method == "View"
	switch {
	case c.at == beforeClaim && p == faulty.Point{Method: "Claim", N: nth}, c.at == beforeSettle && p == faulty.Point{Method: "Settle", N: nth}:
		c.dying = true
	case c.at == afterSettle && p == faulty.Point{Method: "Settle", N: nth}:
		c.settled = true
	case c.settled && begins:
		c.dying = true
	}
	if c.dying {
		return faulty.Fault{Act: faulty.Die}
	}
	return faulty.Fault{}
}

// die kills the runtime from inside the tool.
func (c *crash) die() {
	c.mu.Lock()
	c.dying = true
	kill := c.kill
	c.mu.Unlock()
	kill()
}

// reached reports whether the runtime died at the moment.
func (c *crash) reached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dying
}

// enter carries out one entry into the tool, and kills the runtime around it where that is the moment.
func (c *crash) enter(ctx context.Context, call tool.Call, whole bool, run func(context.Context) tool.Result) tool.Result {
	if !whole && c.lane == perdure.Background && c.at != "" {
		select { // the call that asks for the run is over first, so that the next settlement is the run's
		case <-c.settling:
		case <-ctx.Done():
		}
	}
	if !whole && c.at == afterClaim {
		c.die()
		<-ctx.Done()
		return tool.Error("the runtime was killed before the tool was entered")
	}
	c.mu.Lock()
	c.keys = append(c.keys, call.Key)
	c.mu.Unlock()
	if !whole && c.at == during {
		c.die()
		<-ctx.Done()
	}
	result := run(ctx)
	if !whole && c.at == afterEffect {
		c.die()
	}
	return result
}

// said notes that the tool said that nothing had happened.
func (c *crash) said(nothing bool) {
	if nothing {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.denied++
	}
}

// The powers of a tool that recovery uses, each alone.
type (
	runsBackground interface {
		RunBackground(context.Context, tool.Call, tool.Env, tool.Sink) tool.Result
	}
	reconciles interface {
		Reconcile(context.Context, tool.Call, tool.Env) (tool.Reconciled, error)
	}
	survives interface {
		Prepare(context.Context, tool.Call) error
		Look(context.Context, tool.Call) (perdure.Remains, error)
		Adopt(context.Context, tool.Call, tool.Env, tool.Sink) tool.Result
		Stop(context.Context, tool.Call) error
	}
)

// counted is the tool under test with its entries counted, and with the powers that it has itself. whole is for a
// runtime that is not to die.
func (c *crash) counted(whole bool) tool.Tool {
	entry := counted{Tool: c.subject, c: c, whole: whole}
	runs, inBackground := c.subject.(tool.Background)
	asked, canTell := c.subject.(tool.Reconciler)
	kept, goesOn := c.subject.(tool.Survivor)
	back, tells, lives := countedBackground{runs, entry}, countedReconciler{asked, c}, countedSurvivor{kept, c}
	switch {
	case inBackground && canTell && goesOn:
		return struct {
			counted
			runsBackground
			reconciles
			survives
		}{entry, back, tells, lives}
	case inBackground && canTell:
		return struct {
			counted
			runsBackground
			reconciles
		}{entry, back, tells}
	case inBackground && goesOn:
		return struct {
			counted
			runsBackground
			survives
		}{entry, back, lives}
	case canTell && goesOn:
		return struct {
			counted
			reconciles
			survives
		}{entry, tells, lives}
	case inBackground:
		return struct {
			counted
			runsBackground
		}{entry, back}
	case canTell:
		return struct {
			counted
			reconciles
		}{entry, tells}
	case goesOn:
		return struct {
			counted
			survives
		}{entry, lives}
	}
	return entry
}

// counted counts the entries into a tool.
type counted struct {
	tool.Tool
	c     *crash
	whole bool
}

// Run enters the tool.
func (k counted) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	return k.c.enter(ctx, call, k.whole, func(ctx context.Context) tool.Result { return k.Tool.Run(ctx, call, env) })
}

// countedBackground is the background of a counted tool.
type countedBackground struct {
	runs  tool.Background
	entry counted
}

// RunBackground enters the tool.
func (k countedBackground) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	return k.entry.c.enter(ctx, call, k.entry.whole, func(ctx context.Context) tool.Result { return k.runs.RunBackground(ctx, call, env, sink) })
}

// countedReconciler asks a tool whether it happened.
type countedReconciler struct {
	asked tool.Reconciler
	c     *crash
}

// Reconcile asks the tool.
func (k countedReconciler) Reconcile(ctx context.Context, call tool.Call, env tool.Env) (tool.Reconciled, error) {
	found, err := k.asked.Reconcile(ctx, call, env)
	k.c.said(err == nil && found.DidNotHappen)
	return found, err
}

// countedSurvivor looks for what is left of a tool.
type countedSurvivor struct {
	tool.Survivor
	c *crash
}

// Look asks the tool.
func (k countedSurvivor) Look(ctx context.Context, call tool.Call) (perdure.Remains, error) {
	remains, err := k.Survivor.Look(ctx, call)
	k.c.said(err == nil && remains == perdure.RemainsUnstarted)
	return remains, err
}

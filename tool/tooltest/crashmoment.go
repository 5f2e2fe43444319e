package tooltest

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/tool"
)

// moment is a moment of a call at which the engine is killed.
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

// fault is the fault plan of a moment. In the background the first claim and the first settlement
// belong to the call that requests the run.
func (c *crash) fault(p faulty.Point) faulty.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	nth := 1
	if c.lane == perdure.Background {
		nth = 2
		if p == (faulty.Point{Method: "Calls.Settle", N: 1}) {
			close(c.settling)
		}
	}
	startsTx := p.Method == "InTx" || p.Method == "View"
	switch {
	case c.at == beforeClaim && p == faulty.Point{Method: "Calls.Claim", N: nth}, c.at == beforeSettle && p == faulty.Point{Method: "Calls.Settle", N: nth}:
		c.dying = true
	case c.at == afterSettle && p == faulty.Point{Method: "Calls.Settle", N: nth}:
		c.settled = true
	case c.settled && startsTx:
		c.dying = true
	}
	if c.dying {
		return faulty.Fault{Act: faulty.Die}
	}
	return faulty.Fault{}
}

// die kills the engine from inside the tool.
func (c *crash) die() {
	c.mu.Lock()
	c.dying = true
	kill := c.kill
	c.mu.Unlock()
	kill()
}

// reached reports whether the moment was reached.
func (c *crash) reached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dying
}

// invoke runs the tool, and kills the engine before, during or after that if it is the moment to
// do so.
func (c *crash) invoke(ctx context.Context, call tool.Call, final bool,
	run func(context.Context) tool.Result) tool.Result {
	if !final && c.lane == perdure.Background && c.at != "" {
		select { // wait for that call first, so that the next settlement is the run's
		case <-c.settling:
		case <-ctx.Done():
		}
	}
	if !final && c.at == afterClaim {
		c.die()
		<-ctx.Done()
		return tool.Error("the runtime was killed before the tool was entered")
	}
	c.mu.Lock()
	c.keys = append(c.keys, call.Key)
	c.mu.Unlock()
	if !final && c.at == during {
		c.die()
		<-ctx.Done()
	}
	result := run(ctx)
	if !final && c.at == afterEffect {
		c.die()
	}
	return result
}

// countNotHappened counts reports of the tool that nothing had happened.
func (c *crash) countNotHappened(nothing bool) {
	if nothing {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.notHappened++
	}
}

// The optional methods of a tool that crash recovery uses, one group each.
type (
	runsBackground interface {
		RunBackground(context.Context, tool.Call, tool.Env, tool.Sink) tool.Result
	}
	reconciles interface {
		Reconcile(context.Context, tool.Call, tool.Env) (tool.Reconciled, error)
	}
	survives interface {
		Prepare(context.Context, tool.Call) error
		Inspect(context.Context, tool.Call) (perdure.ExecutionRemains, error)
		Adopt(context.Context, tool.Call, tool.Env, tool.Sink) tool.Result
		Stop(context.Context, tool.Call) error
	}
)

// instrumented returns the tool under test with its entries counted. The result implements an
// optional interface only if the tool does, because crash recovery checks for them: hence one
// struct for each combination. final is true for the engine that must not crash.
func (c *crash) instrumented(final bool) tool.Tool {
	entry := countingTool{Tool: c.subject, c: c, final: final}
	runs, inBackground := c.subject.(tool.Background)
	reconciler, canReconcile := c.subject.(tool.Reconciler)
	survivor, canSurvive := c.subject.(tool.Adoptable)
	asBackground := countingBackground{runs, entry}
	asReconciler := countingReconciler{reconciler, c}
	asSurvivor := countingSurvivor{survivor, c}
	switch {
	case inBackground && canReconcile && canSurvive:
		return struct {
			countingTool
			runsBackground
			reconciles
			survives
		}{entry, asBackground, asReconciler, asSurvivor}
	case inBackground && canReconcile:
		return struct {
			countingTool
			runsBackground
			reconciles
		}{entry, asBackground, asReconciler}
	case inBackground && canSurvive:
		return struct {
			countingTool
			runsBackground
			survives
		}{entry, asBackground, asSurvivor}
	case canReconcile && canSurvive:
		return struct {
			countingTool
			reconciles
			survives
		}{entry, asReconciler, asSurvivor}
	case inBackground:
		return struct {
			countingTool
			runsBackground
		}{entry, asBackground}
	case canReconcile:
		return struct {
			countingTool
			reconciles
		}{entry, asReconciler}
	case canSurvive:
		return struct {
			countingTool
			survives
		}{entry, asSurvivor}
	}
	return entry
}

// countingTool counts the entries into a tool.
type countingTool struct {
	tool.Tool
	c     *crash
	final bool
}

// Run enters the tool.
func (k countingTool) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	return k.c.invoke(ctx, call, k.final, func(ctx context.Context) tool.Result { return k.Tool.Run(ctx, call, env) })
}

// countingBackground counts the entries in the background.
type countingBackground struct {
	runs  tool.Background
	entry countingTool
}

// RunBackground enters the tool.
func (k countingBackground) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	return k.entry.c.invoke(ctx, call, k.entry.final,
		func(ctx context.Context) tool.Result { return k.runs.RunBackground(ctx, call, env, sink) })
}

// countingReconciler counts the reports of a Reconciler.
type countingReconciler struct {
	reconciler tool.Reconciler
	c          *crash
}

// Reconcile calls the tool.
func (k countingReconciler) Reconcile(ctx context.Context, call tool.Call, env tool.Env) (tool.Reconciled, error) {
	found, err := k.reconciler.Reconcile(ctx, call, env)
	k.c.countNotHappened(err == nil && found.DidNotHappen)
	return found, err
}

// countingSurvivor counts the reports of a Survivor.
type countingSurvivor struct {
	tool.Adoptable
	c *crash
}

// Look calls the tool.
func (k countingSurvivor) Inspect(ctx context.Context, call tool.Call) (perdure.ExecutionRemains, error) {
	remains, err := k.Adoptable.Inspect(ctx, call)
	k.c.countNotHappened(err == nil && remains == perdure.RemainsUnstarted)
	return remains, err
}

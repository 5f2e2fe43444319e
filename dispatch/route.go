package dispatch

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Route is a host's answer to where a call runs (LN2). The zero value leaves it to the tool's soft budget.
type Route struct {
	kind  routeKind
	after time.Duration
}

type routeKind int

const (
	unset routeKind = iota
	foreground
	background
	detachAfter
)

// InForeground makes the turn wait, whatever the soft budget. The hard deadline applies.
func InForeground() Route { return Route{kind: foreground} }

// InBackground lets the turn go on at once.
func InBackground() Route { return Route{kind: background} }

// DetachAfter begins in the foreground and leaves it after d of execution, as a tool's soft budget does: its end asks for a turn,
// unless the launch says otherwise. 0 and less is InBackground.
func DetachAfter(d time.Duration) Route {
	if d <= 0 {
		return InBackground()
	}
	return Route{kind: detachAfter, after: d}
}

// Routing is where a call begins, and when it leaves.
type Routing struct {
	Lane   perdure.Lane
	Soft   time.Duration  // until it leaves the foreground; 0: it does not by itself
	Origin perdure.Origin // of the task that it becomes
	Wake   perdure.Wake   // what the end of that task does, unless somebody says otherwise (DL6)
}

// RouteCall decides where a call runs. The first answer wins: the model's, the host's, the tool's soft budget
// (0: tool.DefaultSoftBudget; tool.Never and less: it stays). Every input has an answer (LN2, PR5).
func RouteCall(spawned bool, host Route, softBudget time.Duration) Routing {
	if spawned {
		return Routing{Lane: perdure.Background, Origin: perdure.OriginSpawned, Wake: perdure.WakeContinue}
	}
	switch host.kind {
	case foreground:
		return Routing{Lane: perdure.Foreground, Origin: perdure.OriginDetached, Wake: perdure.WakeNotify}
	case background:
		return Routing{Lane: perdure.Background, Origin: perdure.OriginRouted, Wake: perdure.WakeNotify}
	case detachAfter:
		softBudget = host.after
	}
	r := Routing{Lane: perdure.Foreground, Soft: softBudget, Origin: perdure.OriginDetached, Wake: perdure.WakeContinue}
	if softBudget == 0 {
		r.Soft = tool.DefaultSoftBudget
	}
	r.Soft = max(r.Soft, 0)
	return r
}

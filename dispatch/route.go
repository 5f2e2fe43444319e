package dispatch

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Route is the host's decision where a call runs. The zero value leaves it to the tool's soft
// budget.
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

// InForeground lets the turn wait for the call. The soft budget does not apply, but the deadline
// does.
func InForeground() Route { return Route{kind: foreground} }

// InBackground lets the turn continue at once.
func InBackground() Route { return Route{kind: background} }

// DetachAfter starts the call in the foreground and detaches it after d of execution, like a soft
// budget. The end of the task then has wake continue, unless the launch says otherwise. 0 or less
// is InBackground.
func DetachAfter(d time.Duration) Route {
	if d <= 0 {
		return InBackground()
	}
	return Route{kind: detachAfter, after: d}
}

// Routing is the lane in which a call starts, and when it detaches.
type Routing struct {
	Lane   perdure.Lane
	Soft   time.Duration  // execution time after which it detaches; 0: never by itself
	Origin perdure.Origin // of the task that the call becomes
	Wake   perdure.Wake   // of that task, unless the launch says otherwise
}

// RouteCall decides where a call runs. The first decision wins: the model's, the host's, then the
// soft budget of the tool. A soft budget of 0 means tool.DefaultSoftBudget; tool.Never or less
// means that the call never detaches. Every combination of inputs has an answer.
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

package access_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/store/memory"
)

// methodsOf are the methods of an engine by the scopes of which one is enough. Who may write or
// approve may also read the objects concerned.
var methodsOf = map[string]string{
	"read write approve": `
		Agents.Effective Agents.List Agents.Versions Approvals.Get Approvals.List Budgets.Check
		Budgets.Costs Budgets.Entries Budgets.List Calls.List Connections.List
		Databases.Dump Databases.List Databases.Query Engine.Events Engine.Follow Files.Get Files.Grep Files.List Harnesses.List Harnesses.Versions HostCalls.Find
		HostCalls.Wait Providers.DefaultModel Providers.Get Providers.List Providers.Models Images.Get Images.List Payments.Get Payments.List Resources.Get Resources.List Schedules.Fires Schedules.Get Schedules.List
		Schedules.NextFires Schedules.Preview Secrets.List Sessions.Get Sessions.List Sessions.ListWhere Sessions.WaitIdle
		Tasks.Bulk Tasks.Get Tasks.List Tasks.ListWhere Tasks.Log Tasks.Messages Tasks.Overview Tasks.Processes Tasks.Recoveries Tasks.Wait Tools.List Values.Get
		Values.List
	`,
	"read write approve admin": `
		Agents.Get Harnesses.Get
	`, // who may write it sees what is overwritten
	"write": `
		Connections.Begin Connections.Finish Connections.Put Connections.Remove Connections.Test
		Calls.Answer Calls.Detach Engine.Send Files.Move Files.Remove Files.Write
		HostCalls.MarkReported HostCalls.Start Images.Put Images.Remove Schedules.Backfill Schedules.Create Schedules.Delete
		Schedules.Pause Schedules.Resume Schedules.Trigger Secrets.Remove Secrets.Set Sessions.Change
		Sessions.Create Sessions.CreateAs Sessions.CreateFromAgent Sessions.Delete Sessions.Ensure Sessions.Fork
		Sessions.Interrupt Sessions.Pause Tasks.Cancel Tasks.CancelAll Tasks.CancelWhere Tasks.Drain Tasks.Force Tasks.Send
		Tasks.SetDelivery Tools.Call Values.Remove Values.Set
	`,
	"approve": `
		Approvals.Decide Calls.Resolve Payments.Resolve Resources.Release Sessions.Resume Tasks.Resolve
	`,
	"admin": `
		Agents.Delete Agents.Put Audit.List Budgets.Remove Budgets.Set
		Harnesses.Delete Harnesses.Put
		Sessions.Export Sessions.Homes Sessions.Import Sessions.MoveHere Providers.Delete Providers.Put
		Providers.SetDefaultModel Providers.Test Tokens.List Tokens.Revoke Webhooks.Change
		Webhooks.Create Webhooks.Delete Webhooks.Deliveries Webhooks.Get Webhooks.List Webhooks.Redeliver
		Webhooks.Rotate Webhooks.Test
	`,
	"": `
		Tokens.Create
	`, // of this order, which is for another org: that is for root alone
}

// let reports whether the guard admits a principal with one scope to a method, whatever the engine
// then returns: here the engine is nil, and the call panics.
func let(t *testing.T, method func(*access.Guard) reflect.Value, g *access.Guard, scope access.Scope) (yes bool) {
	t.Helper()
	defer func() {
		if recover() != nil {
			yes = true
		}
	}()
	call := method(g)
	ctx := access.WithPrincipal(t.Context(), access.Principal{ID: "token_1", Org: "default", Scopes: []access.Scope{scope}})
	in := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < call.Type().NumIn(); i++ {
		in = append(in, reflect.Zero(call.Type().In(i)))
	}
	out := call.Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	return !errors.Is(err, perdure.Denied)
}

// TestS13GuardScopes pins the scopes that every method of the engine requires, whatever its
// transport has checked before.
func TestS13GuardScopes(t *testing.T) {
	t.Parallel()
	g := access.NewGuard(struct{ engine.Engine }{}, access.StoreOwners(memory.New(memory.Config{})), access.MachineAccess{}, nil)
	methods := operations(t)
	for name, method := range methods {
		var may []string
		for _, scope := range access.All() {
			if let(t, method, g, scope) {
				may = append(may, string(scope))
			}
		}
		got := strings.Join(may, " ")
		if !slices.Contains(strings.Fields(methodsOf[got]), name) {
			t.Errorf("%s is for %q: add it there, if that is right", name, got)
		}
	}
	if len(methods) != len(strings.Fields(strings.Join(slices.Collect(maps.Values(methodsOf)), " "))) {
		t.Error("there are operations here that no engine has")
	}
}

// operations returns how to reach each operation of the engine by its name.
func operations(t *testing.T) map[string]func(*access.Guard) reflect.Value {
	t.Helper()
	found := map[string]func(*access.Guard) reflect.Value{}
	add := func(noun string, method reflect.Method, of func(*access.Guard) reflect.Value) {
		if method.Type.NumIn() == 0 || method.Type.In(0) != reflect.TypeFor[context.Context]() {
			t.Errorf("%s.%s: it takes no context, so no principal", noun, method.Name)
			return
		}
		found[noun+"."+method.Name] = func(g *access.Guard) reflect.Value { return of(g).MethodByName(method.Name) }
	}
	whole := func(g *access.Guard) reflect.Value { return reflect.ValueOf(g) }
	for _, method := range methodsIn(reflect.TypeFor[engine.Engine]()) {
		if method.Type.NumIn() > 0 {
			add("Engine", method, whole)
			continue
		}
		noun := func(g *access.Guard) reflect.Value { return whole(g).MethodByName(method.Name).Call(nil)[0] }
		for _, inner := range methodsIn(method.Type.Out(0)) {
			add(method.Name, inner, noun)
		}
	}
	return found
}

func methodsIn(of reflect.Type) []reflect.Method { return slices.Collect(of.Methods()) }

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
		AgentVersions Agents Approval Approvals BudgetEntries Budgets Bulk Calls CheckBudgets Connections Costs EffectiveAgent
		Events File Files FindCall Follow HarnessVersions Harnesses NextFires Providers Resource Resources Schedule ScheduleFires Schedules Secrets
		Session Sessions SessionsWhere Task TaskLog TaskMessages Tasks Tools Value Values WaitCall WaitIdle WaitTask`,
	"read write approve admin": "Agent Harness", // who may write it sees what is overwritten
	"write": `
		AnswerCall Backfill CallTool CancelTask CancelTasks CancelWhere ChangeSession CreateSchedule DeleteSchedule
		DeleteSession DetachCall DrainReady Fork Interrupt MoveFile NewSession NewSessionAs PauseSchedule PauseSession
		RemoveFile RemoveSecret RemoveValue ResumeSchedule Send SendTask SetDelivery SetSecret SetValue StartCall StartAgentSession
		AcknowledgeCall TriggerSchedule WriteFile`,
	"approve": `
		DecideApproval ReleaseResource ResolveCall ResolveTask ResumeSession`,
	"admin": `
		Audit ChangeWebhook CreateWebhook DeleteAgent DeleteHarness DeleteWebhook Export Import PutAgent PutHarness RedeliverWebhook RemoveBudget
		RevokeToken RotateWebhook SetBudget TestConnection TestWebhook Tokens Webhook WebhookDeliveries Webhooks`,
	"": "CreateToken", // of this order, which is for another org: that is for root alone
}

// let reports whether the guard admits a principal with one scope to a method, whatever the engine
// then returns: here the engine is nil, and the call panics.
func let(t *testing.T, g *access.Guard, method string, scope access.Scope) (yes bool) {
	t.Helper()
	defer func() {
		if recover() != nil {
			yes = true
		}
	}()
	call := reflect.ValueOf(g).MethodByName(method)
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
	guarded := reflect.TypeFor[engine.Engine]()
	for i := range guarded.NumMethod() {
		method := guarded.Method(i)
		if method.Type.NumIn() == 0 || method.Type.In(0) != reflect.TypeFor[context.Context]() {
			t.Errorf("%s: it takes no context, so no principal", method.Name)
			continue
		}
		var may []string
		for _, scope := range access.All() {
			if let(t, g, method.Name, scope) {
				may = append(may, string(scope))
			}
		}
		got := strings.Join(may, " ")
		if !slices.Contains(strings.Fields(methodsOf[got]), method.Name) {
			t.Errorf("%s is for %q: add it there, if that is right", method.Name, got)
		}
	}
	if guarded.NumMethod() != len(strings.Fields(strings.Join(slices.Collect(maps.Values(methodsOf)), " "))) {
		t.Error("there are methods here that no engine has")
	}
}

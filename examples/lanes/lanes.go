// Package lanes holds the code of the how-tos about long-running tools, approvals and cancelling:
// tools, and the policies of the host that runs them.
//
// It may import anything. The one thing to know: the tools' code does not decide the lane of a
// call. A tool works and reports the same way in every lane.
package lanes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/tool"
)

type importIn struct {
	Folder string `json:"folder" default:"INBOX" jsonschema:"Which folder of the mailbox."`
}

type importOut struct {
	Imported int `json:"imported"`
}

// ImportMail returns a tool that runs for as long as there is mail. It skips mail that is already
// imported, by its id, so running it twice has the effect of running it once.
func ImportMail(mail <-chan string) tool.Tool {
	return tool.New(tool.Spec{
		Name:        "import_mail",
		Description: "Imports a folder of the mailbox. A large one takes minutes.",
		Class:       perdure.Idempotent,
		SoftBudget:  20 * time.Second, // after this time the turn continues without it
		Deadline:    30 * time.Minute, // after this time it is stopped
		Stall:       2 * time.Minute,  // it is also stopped after this time without progress or output
	}, func(ctx context.Context, in importIn, env tool.Env) (importOut, error) {
		var out importOut
		for {
			select {
			case id, more := <-mail:
				if !more {
					return out, nil
				}
				out.Imported++
				env.Sink.Output("stdout", fmt.Appendln(nil, in.Folder, id))
				env.Sink.Progress(float64(out.Imported), 0, "messages")
			case <-ctx.Done():
				return out, context.Cause(ctx)
			}
		}
	})
}

// Route is the host's choice of lane. It takes precedence over a tool's soft budget.
func Route(call tool.Call) dispatch.Route {
	switch call.Tool {
	case "import_mail":
		return dispatch.DetachAfter(2 * time.Second)
	case "render":
		return dispatch.InBackground()
	case "delete_folder":
		return dispatch.InForeground()
	}
	return dispatch.Route{} // no choice: the tool's specification decides
}

type mailIn struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

type mailOut struct {
	Sent string `json:"sent"`
}

// SendMail returns a tool whose every call needs the approval of a person.
func SendMail(send func(key, to, text string) error) tool.Tool {
	return tool.New(tool.Spec{
		Name:        "send_mail",
		Description: "Sends a mail.",
		Class:       perdure.AtMostOnce,
		Policy:      tool.PolicyRequiresApproval,
	}, func(_ context.Context, in mailIn, env tool.Env) (mailOut, error) {
		return mailOut{Sent: in.To}, send(env.Call.Key, in.To, in.Text)
	})
}

type deleteIn struct {
	Folder string `json:"folder"`
}

type deleteOut struct {
	Deleted string `json:"deleted"`
}

// deleteFolder adds the permissions of a call to a tool.
type deleteFolder struct{ tool.Tool }

var _ tool.Guarded = deleteFolder{}

// DeleteFolder returns a tool that does not ask for approval itself. The host's policy decides,
// depending on the folder.
func DeleteFolder(remove func(folder string) error) tool.Tool {
	spec := tool.Spec{Name: "delete_folder", Description: "Deletes a folder of the mailbox.", Class: perdure.Idempotent}
	return deleteFolder{tool.New(spec, func(_ context.Context, in deleteIn, _ tool.Env) (deleteOut, error) {
		return deleteOut{Deleted: in.Folder}, remove(in.Folder)
	})}
}

// Permissions implements tool.Guarded: it names the folder.
func (deleteFolder) Permissions(call tool.Call) []perdure.Permission {
	var in deleteIn
	if err := perdure.DecodeJSON(call.Args, &in); err != nil {
		panic(err) // the arguments match the schema; a panic here refuses the call
	}
	return []perdure.Permission{{Kind: "folder", Target: in.Folder, Reason: "all mail in it will be deleted"}}
}

// Permit is the host's policy.
func Permit(_ context.Context, _ tool.Call, p perdure.Permission) (perdure.Decision, string, error) {
	switch {
	case p.Kind != "folder":
		return perdure.Undecided, "", nil
	case strings.HasPrefix(p.Target, "Archive"):
		return perdure.Deny, "the archive must not be deleted", nil
	case p.Target == "Trash":
		return perdure.Allow, "", nil
	}
	return perdure.Ask, "", nil
}

// Staging is a hook that sends all mail to one address.
type Staging struct{ To string }

var _ tool.Hook = Staging{}

// BeforeTool puts the address into the arguments before any policy sees them.
func (s Staging) BeforeTool(_ context.Context, call tool.Call) (tool.Before, error) {
	if call.Tool != "send_mail" {
		return tool.Before{}, nil
	}
	var in mailIn
	if err := perdure.DecodeJSON(call.Args, &in); err != nil {
		return tool.Before{}, err
	}
	in.To = s.To
	args, err := json.Marshal(in)
	return tool.Before{Args: args}, err
}

// AfterTool changes no result.
func (s Staging) AfterTool(context.Context, tool.Call, tool.Result) (tool.After, error) {
	return tool.After{}, nil
}

type roomIn struct {
	Day string `json:"day"`
}

type roomOut struct {
	Room string `json:"room"`
	By   string `json:"by"`
}

// BookRoom returns a tool that has to ask questions in the middle of its work.
func BookRoom(book func(key, day, room string) error) tool.Tool {
	spec := tool.Spec{Name: "book_room", Description: "Books a room.", Class: perdure.Idempotent}
	return tool.New(spec, func(ctx context.Context, in roomIn, env tool.Env) (roomOut, error) {
		if env.Dialog == nil {
			return roomOut{}, tool.Errorf("%s", tool.Missing("Dialog", "book_room asks which room.").Text)
		}
		reply, err := env.Dialog.Ask(ctx, tool.Question{
			Prompt:   "Red and Blue are free on " + in.Day + ". Which one?",
			Expected: []byte(`{"type":"object","properties":{"room":{"enum":["Red","Blue"]}},"required":["room"]}`),
		})
		if err != nil {
			return roomOut{}, err
		}
		var chosen struct {
			Room string `json:"room"`
		}
		if err := perdure.DecodeJSON(reply.Data, &chosen); err != nil {
			return roomOut{}, err
		}
		allowed, err := env.Dialog.Ask(ctx, tool.Question{
			Prompt:      chosen.Room + " costs 40 a day.",
			Permissions: []perdure.Permission{{Kind: "cost", Target: "40"}},
		})
		switch {
		case err != nil:
			return roomOut{}, err
		case !allowed.Approved:
			return roomOut{}, tool.Errorf("The cost of %s was not approved. Nothing is booked.", chosen.Room)
		}
		return roomOut{Room: chosen.Room, By: allowed.By}, book(env.Call.Key, in.Day, chosen.Room)
	})
}

type pickIn struct {
	Title string `json:"title"`
}

// PickFile returns a tool that the client answers. Its function is never called.
func PickFile() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "pick_file",
		Description: "Lets the user pick a file.",
		Class:       perdure.AtMostOnce,
		Policy:      tool.PolicyClientSide,
		Deadline:    10 * time.Minute, // for the client's answer; without it there is no limit
	}, func(context.Context, pickIn, tool.Env) (tool.Result, error) {
		return tool.Error("The client answers this."), nil
	})
}

// AnswerCalls is the client: it answers client-side calls until ctx ends.
func AnswerCalls(ctx context.Context, eng engine.Engine, id perdure.SessionID, pick func(args json.RawMessage) (json.RawMessage, error)) error {
	return eng.Follow(ctx, id, 0, func(f engine.Frame) error {
		if f.Event == nil {
			return nil
		}
		asked, ok := f.Event.Fact.(perdure.ToolCallRequested)
		if !ok {
			return nil
		}
		answer, err := pick(asked.Args)
		if err != nil {
			return err
		}
		key := perdure.CallKey{Session: id, Call: asked.CallID}
		err = eng.Calls().Answer(ctx, key, "app", perdure.ToolResult{Result: answer})
		if errors.Is(err, perdure.Conflict) {
			return nil // the call is already answered, or the turn was interrupted
		}
		return err
	})
}

// Farm is the service behind render: it runs jobs, each under a key.
type Farm interface {
	// Render returns when the job has ended.
	Render(key, scene string) (picture string, err error)
	// Stop stops a job.
	Stop(key string, force bool)
}

type renderIn struct {
	Scene string `json:"scene"`
}

type renderOut struct {
	Picture string `json:"picture"`
}

// render is a tool whose work does not stop when its context is cancelled.
type render struct {
	tool.Tool
	farm Farm
}

var _ tool.Killer = render{}

// Render returns a tool whose work runs on another system.
func Render(farm Farm) tool.Tool {
	spec := tool.Spec{Name: "render", Description: "Renders a scene.", Class: perdure.Idempotent}
	return render{farm: farm, Tool: tool.New(spec, func(ctx context.Context, in renderIn, env tool.Env) (renderOut, error) {
		picture, err := farm.Render(env.Call.Key, in.Scene)
		if err != nil && ctx.Err() != nil {
			return renderOut{}, context.Cause(ctx)
		}
		return renderOut{Picture: picture}, err
	})}
}

// Kill implements tool.Killer: it stops the job.
func (r render) Kill(call tool.Call, force bool) { r.farm.Stop(call.Key, force) }

// EndTask cancels a task and waits until it has ended.
func EndTask(ctx context.Context, eng engine.Engine, id perdure.TaskID) (perdure.Task, error) {
	receipt, err := eng.Tasks().Cancel(ctx, id, "user", "not needed any more")
	if err != nil {
		return perdure.Task{}, err
	}
	if receipt.RequestedAt.IsZero() {
		fmt.Println("the task had already ended")
	}
	return eng.Tasks().Wait(ctx, id)
}

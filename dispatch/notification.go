package dispatch

import "github.com/perdure/perdure"

// Notification is the text that reports the late end of a call to the model, whose transcript has
// the placeholder as the result of the call. It is data from a tool, not an instruction from a
// person; mark it as such.
func (i Item) Notification() string {
	ended := perdure.Task{Run: perdure.RunID(i.Task), State: i.State, Tool: i.Tool, Summary: i.Result.Brief()}
	if i.Result.Error != "" {
		ended.Summary = i.Result.Error
	}
	if i.Call != "" {
		ended.Origin, ended.Call, ended.Result = perdure.OriginDetached, i.Call, perdure.ShortResult(i.Result.Result, "")
	}
	return ended.Notification()
}

package render

// Words are all the words of a Markdown or HTML page itself, so that it can
// be in another language. The content of sessions is never translated.
type Words struct {
	Lang string // the language of the words, as HTML names it

	// The table at the top.
	Session, Part, State, Agent, Model, Mode, Project, Tags, ForkedFrom, ForeignID string
	Messages, Created, Updated, Exported, NoTitle                                  string

	// The tree of branches, and the workers.
	Branches, Label, Workers, Worker string

	// The entries.
	Skip, Conversation, Context                     string
	System, User, Assistant, Tool                   string
	Branch, BranchFrom, Gap, GapText, Draft         string
	Damaged, DamagedText                            string
	TokensIn, TokensOut, Permalink                  string
	Nothing, Footer                                 string
	Thinking, ThinkingSealed, Provider              string
	ToolCall, ToolResult, ToolError, Unnamed, Input string
	Image, File, Untyped, KeptElsewhere             string
}

// English are the default words of a page.
var English = Words{
	Lang: "en",

	Session: "Session", Part: "Part", State: "State", Agent: "Agent", Model: "Model", Mode: "Mode", Project: "Project",
	Tags: "Tags", ForkedFrom: "Forked from", ForeignID: "Foreign id",
	Messages: "Messages", Created: "Created", Updated: "Updated", Exported: "Exported", NoTitle: "(no title)",

	Branches: "Branches", Label: "Label", Workers: "Workers", Worker: "Worker",

	Skip: "Skip to the conversation", Conversation: "Conversation", Context: "Context",
	System: "System", User: "User", Assistant: "Assistant", Tool: "Tool",
	Branch: "Branch", BranchFrom: "goes on from", Gap: "Gap", GapText: "An entry of another branch stood here.", Draft: "draft",
	Damaged: "Damaged entry", DamagedText: "This entry is damaged and cannot be shown:",
	TokensIn: "tokens in", TokensOut: "out", Permalink: "Link to entry",
	Nothing: "(nothing)", Footer: "Exported by Tidemark",
	Thinking: "Thinking", ThinkingSealed: "Thinking that only its provider can read", Provider: "provider",
	ToolCall: "Tool call", ToolResult: "Tool result", ToolError: "Tool error", Unnamed: "(no name)", Input: "Input",
	Image: "Image", File: "File", Untyped: "Block without a type", KeptElsewhere: "kept at",
}

func wordsOr(s *Words) *Words {
	if s == nil {
		return &English
	}
	return s
}

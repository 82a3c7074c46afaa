package event

// The words of Breach.Rule. They are never renamed; what each stands for is in rules, and in the package comment.
const (
	callWhileLocked     = "call_while_locked"
	callAfterRevocation = "call_after_revocation"
	callAfterRunEnded   = "call_after_run_ended"
	callOfUnknownRun    = "call_of_unknown_run"
	callWithoutGrant    = "call_without_grant"
	callOfOtherEpoch    = "call_of_other_epoch"
	callBeyondGrant     = "call_beyond_grant"
	callPastUses        = "call_past_uses"
	callPastTime        = "call_past_time"
	callAfterEpoch      = "call_after_epoch"
	callAfterGrant      = "call_after_grant"
	callWithoutApproval = "call_without_approval"
	intentTwice         = "intent_twice"
	intentLeftOpen      = "intent_left_open"
	resultWithoutIntent = "result_without_intent"
	resultTwice         = "result_twice"
	resultOfOtherCall   = "result_of_other_call"
	grantTwice          = "grant_twice"
	grantWithoutEnd     = "grant_without_end"
	grantWithoutYes     = "grant_without_approval"
	grantBeyondYes      = "grant_beyond_approval"
	grantOfEndedEpoch   = "grant_of_ended_epoch"
	approvalTwice       = "approval_twice"
	approvalCardDigest  = "approval_card_digest"
	approvalCardNames   = "approval_card_names"
	approvalArgs        = "approval_args"
	approvalPasskey     = "approval_passkey"
	approvalSignature   = "approval_signature"
	passkeyTwice        = "passkey_twice"
	openedTwice         = "opened_twice"
	moreBreaches        = "more"
)

// rules is the list as the package comment has it.
var rules = [][2]string{
	{callWhileLocked, "a call while the vault was locked or no gateway ran"},
	{callAfterRevocation, "a call of a run after its run_revoked"},
	{callAfterRunEnded, "a call of a run after its run_ended"},
	{callOfUnknownRun, "a call of a run that was never opened"},
	{callWithoutGrant, "a call that names no grant issued before it"},
	{callOfOtherEpoch, "a call by a grant of another run or epoch"},
	{callBeyondGrant, "a call whose tool, credential or plan its grant does not cover"},
	{callPastUses, "a call by a grant that is used up"},
	{callPastTime, "an executed call by a grant whose time was over when the intent was committed"},
	{callAfterEpoch, "an executed call by a grant of an epoch that had ended or been replaced"},
	{callAfterGrant, "an executed call by a grant that had been revoked or voided"},
	{callWithoutApproval, "a call that names an approval which was not given, was not for this plan, or was used before"},
	{intentTwice, "two intents of one action"},
	{intentLeftOpen, "an intent that a later gateway_started found open and did not tell as unresolved"},
	{resultWithoutIntent, "a result of an action that was not called"},
	{resultTwice, "two results of one action"},
	{resultOfOtherCall, "a result whose run or epoch is not its intent's"},
	{grantTwice, "two grants of one id"},
	{grantWithoutEnd, "a grant whose end cannot be read; it counts as void"},
	{grantWithoutYes, "a grant without an approval of the same run and epoch, or by one that gave another grant"},
	{grantBeyondYes, "a grant wider than its card or than the scope that was approved"},
	{grantOfEndedEpoch, "a grant to an epoch that had ended or was never opened"},
	{approvalTwice, "two approvals of one id"},
	{approvalCardDigest, "an approval whose card does not have the digest it names"},
	{approvalCardNames, "an approval whose card is of another approval, run or epoch"},
	{approvalArgs, "an approval whose request is not canonical, or names another approval, card or scope"},
	{approvalPasskey, "an approval signed by a passkey that was not enrolled then"},
	{approvalSignature, "an approval whose signature does not verify, or that should have one and has none"},
	{passkeyTwice, "a passkey enrolled under the credential id of another"},
	{openedTwice, "a run or epoch opened a second time"},
	{moreBreaches, "the breaches over 1000, as a number"},
}

// What says how to do something comes before the reference, and that before proofs and results;
// a name of dpfast in full comes first, the shortest of those that end alike.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    const room = page.split("/")[0];
    if (["claims", "gallery", "_modules"].includes(room)) return score - 40;
    if (["howto", "tasks", "tutorials", "choosing-mu"].includes(room)) return score + 20;
    if (!description) return score;
    const parts = title.split(".").length - 1;
    return parts > 1 ? score - 35 - parts : score - parts; // a method is found by its class
  },
  objNameMatch: 41,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

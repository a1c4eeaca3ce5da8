// Difference between the attention of two sources: mean Jensen-Shannon divergence over the rows of a head, in bits.

const entropyTerm = (p) => (p > 0 ? -p * Math.log2(p) : 0);

function divergenceOf(first, second, begin) {
  let total = 0;
  let counted = 0;
  for (let query = 0; query < LENGTH; query++) {
    const from = begin + query * LENGTH;
    let [one, other, apart] = [0, 0, 0];
    for (let at = from; at < from + LENGTH; at++) {
      const [p, q] = [first[at], second[at]];
      one += p;
      other += q;
      apart += entropyTerm((p + q) / 2) - (entropyTerm(p) + entropyTerm(q)) / 2;
    }
    if (one <= 0 || other <= 0) continue; // a query without visible keys
    total += Math.min(Math.max(apart, 0), 1);
    counted += 1;
  }
  return counted ? total / counted : 0;
}

// For every head, layer by layer; cached for the last pair of sources.
let divergencePair = "";
let divergences = null;

function divergence(layer, head) {
  if (state.held === null) return 0;
  const pair = `${state.held} ${state.source}`;
  if (pair !== divergencePair) {
    const [first, second] = [mapsOf.get(state.held), mapsOf.get(state.source)];
    divergences = Float32Array.from({ length: LAYERS * HEADS }, (_, i) => divergenceOf(first, second, i * LENGTH * LENGTH));
    divergencePair = pair;
  }
  return divergences[layer * HEADS + head];
}

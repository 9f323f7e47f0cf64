"""Words for the letter tasks. Every fifth word is kept out of training, for measuring."""

import re

import phrases

_TEXT = """
apple banana lemon orange cherry grape melon peach plum berry strawberry tomato potato carrot onion
pepper bread butter cheese sugar honey coffee water juice milk salt rice pasta soup cake cookie
table chair window door floor wall roof house garden kitchen bedroom office street bridge river
mountain forest desert island ocean beach valley castle tower village city country planet moon star
sun cloud rain snow storm thunder wind summer winter spring autumn morning evening night today
monday friday sunday april june august tiger lion bear wolf fox rabbit horse sheep goat cow pig dog
cat mouse bird eagle parrot duck goose chicken fish shark whale dolphin turtle snake frog spider
ant bee butterfly beetle red green blue yellow purple brown black white silver golden music piano
guitar violin drum song dance movie picture paper pencil letter number book story poem school
teacher student lesson answer question doctor nurse hospital farmer baker driver pilot sailor
soldier painter singer king queen prince knight dragon wizard ghost robot rocket engine wheel car
train plane boat ship bicycle ticket travel hotel market money coin bank price gift party birthday
family mother father sister brother baby friend people woman child body head hand foot finger
shoulder knee heart brain tooth nose mouth eye ear hair face smile laugh dream sleep walk run jump
swim climb throw catch carry build break write read speak listen think learn teach play work rest
happy sad angry tired hungry brave clever gentle quick slow heavy light strong weak young old
little big tall short narrow wide deep empty full clean dirty hot cold warm cool dry wet soft hard
sweet sour bitter fresh open closed early late near far left right above below inside outside
mirror lamp candle clock camera phone screen keyboard computer program memory network button switch
hammer nail saw ladder basket bottle glass plate spoon fork knife pan oven fridge towel soap brush
shirt dress skirt jacket coat hat glove shoe sock ring necklace pocket zipper cotton wool silk
gold iron copper stone sand wood plastic leather rubber metal diamond crystal pebble hill lake
pond stream waterfall harbor port lighthouse anchor pirate treasure map compass journey adventure
alice peter maria john laura david emma oscar nina victor clara martin sophie felix hannah simon
football tennis hockey chess puzzle riddle secret magic mystery science physics history language
freedom justice courage wisdom nature energy power speed shadow echo silence noise color shape
circle square triangle corner edge middle center border pattern mississippi tennessee cinnamon
committee balloon coffee pillow yellow cucumber broccoli pineapple elephant giraffe kangaroo
penguin octopus crocodile hamster zebra monkey donkey camel squirrel hedgehog
"""

# What the questions themselves are worded with; training sees each of them anyway.
IN_PHRASES = sorted(set(re.findall(r"\b[a-z]{2,10}\b", re.sub(r"{\w+}", " ", " ".join(phrases.TASKS)).lower())))

ALL = sorted(set(word for word in _TEXT.split() if len(word) <= 10 and word not in IN_PHRASES))
HELD_OUT = [word for i, word in enumerate(ALL) if i % 5 == 2]
TRAINING = [word for i, word in enumerate(ALL) if i % 5 != 2]

NAMES = ["Tom", "Anna", "Sam", "Mia", "Ben", "Eva"]
THINGS = ["apples", "coins", "books", "pens", "cards", "stones"]
